"""Learned dropout in transformers: a small BERT on film reviews, and a small GPT on sums that a program writes.

Both are converted with one call. Sites stand in front of every projection: of queries, keys and values (what attention
reads), of its output (what it has gathered), and of both feed-forward maps (what goes into the residual stream). A mask
is shared by all tokens of a sentence, so the fused attention kernels run as they are.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="a small BERT on film reviews and a small GPT on sums in words: no, fixed and learned dropout",
    minutes=(54, 2),
    source="none: nobody has learned dropout in transformers",
    data=("sst",),
)


class Settings(BaseSettings):
    seeds: int = flag(3, least=1, quick=1)
    """Networks trained in each way."""
    review_epochs: int = flag(8, least=1, quick=1)
    """Passes over the reviews."""
    sum_epochs: int = flag(8, least=1, quick=1)
    """Passes over the sums."""
    lines: int = flag(4000, least=1, quick=300)
    """Sums to train with."""
