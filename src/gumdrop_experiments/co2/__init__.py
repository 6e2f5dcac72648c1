"""Extrapolating CO2."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Extrapolate the record of carbon dioxide by dropout and by Gaussian processes, and hold it against the "
    "truth.",
    shows="extrapolating CO2 by drawn functions and Gaussian processes, scored against what came to pass",
    minutes=10,
    quick_minutes=1,
    source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.1: a figure, no numbers",
    data=("co2",),
)
