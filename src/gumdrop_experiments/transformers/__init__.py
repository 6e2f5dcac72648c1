"""Dropout in small transformers."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Train two small transformers with no, fixed and learned dropout.",
    shows="a small BERT on film reviews and a small GPT on sums in words: no, fixed and learned dropout",
    minutes=80,
    quick_minutes=1,
    source="none: nobody has learned dropout in transformers",
    data=("sst",),
)
