"""A digit that turns."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Turn a digit and watch two networks doubt; tell digits from what is none by their doubt.",
    shows="a digit that turns: softmax inputs and outputs of drawn functions, and where the doubt comes from",
    minutes=6,
    quick_minutes=1,
    source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.2: a figure, no numbers",
    data=("mnist",),
)
