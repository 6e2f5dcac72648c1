"""How experiments run: options, parts that can be stopped, processes, folders."""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use
from gumdrop_experiments.harness.plain import Plain, WithPictures, read_json, write_json
from gumdrop_experiments.harness.settings import About, BaseSettings, RunOptions, data_folder, flag, known, sets_of
from gumdrop_experiments.harness.variants import NO_DROPOUT, START, Prior, part_name, prior_of, rate_of

if TYPE_CHECKING:
    from gumdrop_experiments.harness.run import Run
else:  # needs torch, which the list of all experiments does not wait for
    __getattr__ = names_on_use(__name__, {"gumdrop_experiments.harness.run": ["Run"]})
