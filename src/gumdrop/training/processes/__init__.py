"""Several processes and machines, as torchrun starts them: who trains which rows, and what is summed."""

from gumdrop.training.processes.group import ProcessGroup, process_group, single_process, with_long_timeout
from gumdrop.training.processes.sharding import data_parallel, gathered, shard

__all__ = ["ProcessGroup", "data_parallel", "gathered", "process_group", "shard", "single_process", "with_long_timeout"]
