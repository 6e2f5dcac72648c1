"""How experiments run: options, parts that can be stopped, processes, folders."""

from gumdrop_experiments.harness.folders import data_folder, sets_of
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.plain import Plain, WithPictures, read_json, write_json
from gumdrop_experiments.harness.settings import About, BaseSettings, flag, known
from gumdrop_experiments.harness.variants import NO_DROPOUT, START, Prior, part_name, prior_of, rate_of
