"""Which pixels suffice for a prediction and which destroy it."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Explain digits and photographs, find planted evidence, and compare with Captum's methods.",
    shows="which pixels suffice for a prediction and which destroy it, beside Captum's methods",
    minutes=15,
    quick_minutes=3,
    source="Chang et al. 2019 (arXiv:1807.08024); Korsch et al. 2023 (arXiv:2307.14825); no table on these data",
    data=(
        "mnist",
        "images",
    ),
    threads=None,
)
