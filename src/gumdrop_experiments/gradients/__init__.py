"""Gradient estimators for dropout rates."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Compare estimators of the gradient of dropout rates: bias, variance, norms, and what is learned with them.",
    shows="bias, variance and norms of gradient estimators for dropout rates, and whether they matter",
    minutes=6,
    quick_minutes=2,
    source="supplement of Korsch et al. 2023 (arXiv:2307.14825): norms over 100 steps of 30 runs, as curves",
    data=(
        "mnist",
        "uci",
    ),
    threads=None,
)
