"""What are learned rates worth, from few rows to many, beside no dropout, fixed rates and a grid of them.

The same networks learn from more and more digits of MNIST and rows of two tables, without dropout, with fixed rates and
with learned ones, each with and without the same prior on the weights: what a prior does is then not put down to
dropout. Held-out rows, which are a part of the rows that there are, say which epoch to keep and which fixed rate to
take. Test rows judge: as they are, and digits also with noise and moved.
"""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Compare learned rates with none, fixed ones and a grid, from few rows to many, with and without a prior.",
    shows="nats against the number of rows: no dropout, fixed rates, the best of a grid, learned rates",
    minutes=110,
    quick_minutes=1,
    source="none",
    data=("mnist", "uci", "tables"),
    estimated=True,
)
