"""How stable are the gradients of dropout rates (Korsch, Shadaydeh & Denzler 2023, supplement).

The same noise and the same temperature for the original relaxation, the simplified one and ours, which are one number
in three spellings. Then estimators without a relaxation. Bias and variance are held against the exact gradient, by
enumeration of all masks of nine cells; norms are followed over searches for masks at full size; and learned rates on
UCI sets say whether an unbiased gradient would earn a place in the core.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Compare estimators of the gradient of dropout rates: bias, variance, norms, and what is learned with them.",
    shows="bias, variance and norms of gradient estimators for dropout rates, and whether they matter",
    minutes=6,
    quick_minutes=2,
    source="supplement of Korsch et al. 2023 (arXiv:2307.14825): norms over 100 steps of 30 runs, as curves",
    data=("mnist", "uci"),
    threads=None,
)
