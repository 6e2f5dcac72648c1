"""A small experiment, sums of ranges, with all that an experiment has."""

from gumdrop_experiments.harness.about import About

ABOUT = About(does="Add up ranges.", shows="sums of ranges", minutes=2, quick_minutes=0.1, source="nobody [2020]")
