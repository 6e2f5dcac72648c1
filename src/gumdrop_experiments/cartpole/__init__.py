"""A pole swung up from few trials."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Learn to swing a pole up, with a model that knows what it has not seen.",
    shows="a pole swung up from few trials, in a model whose learned rates fall as the data grow",
    minutes=50,
    quick_minutes=1,
    source="Gal, McAllister & Rasmussen 2016, DeepPILCO: a cumulative reward near 16.5 of 25",
)
