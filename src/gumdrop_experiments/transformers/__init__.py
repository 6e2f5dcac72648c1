"""Learned dropout in transformers: a small BERT on film reviews, and a small GPT on sums that a program writes.

Both are converted with one call. Sites stand in front of every projection: of queries, keys and values (what attention
reads), of its output (what it has gathered), and of both feed-forward maps (what goes into the residual stream). A mask
is shared by all tokens of a sentence, so the fused attention kernels run as they are.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Train two small transformers with no, fixed and learned dropout.",
    shows="a small BERT on film reviews and a small GPT on sums in words: no, fixed and learned dropout",
    minutes=54,
    quick_minutes=2,
    source="none: nobody has learned dropout in transformers",
    data=("sst",),
)
