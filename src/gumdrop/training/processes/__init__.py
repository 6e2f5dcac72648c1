"""Several processes and machines, as torchrun starts them: who trains which rows, and what is summed."""

from gumdrop.training.processes.group import Portion, Ranks, alone, patient, ranks
from gumdrop.training.processes.sharding import data_parallel, gathered, is_sharded, placed_as, shard

__all__ = [
    "Portion",
    "Ranks",
    "alone",
    "data_parallel",
    "gathered",
    "is_sharded",
    "patient",
    "placed_as",
    "ranks",
    "shard",
]
