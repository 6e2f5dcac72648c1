"""How stable are the gradients of dropout rates (Korsch, Shadaydeh & Denzler 2023, supplement).

The same noise and the same temperature for the original relaxation, the simplified one and ours, which are one number
in three spellings. Then estimators without a relaxation. Bias and variance are held against the exact gradient, by
enumeration of all masks of nine cells; norms are followed over searches for masks at full size; and learned rates on
UCI sets say whether an unbiased gradient would earn a place in the core.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="bias, variance and norms of gradient estimators for dropout rates, and whether they matter",
    minutes=(6, 2),
    source="supplement of Korsch et al. 2023 (arXiv:2307.14825): norms over 100 steps of 30 runs, as curves",
    data=("mnist", "uci"),
    threads=None,
)


class Settings(BaseSettings):
    runs: int = flag(30, least=2, quick=4)
    """Searches for masks with each estimator; a standard deviation is of two at least."""
    iterations: int = flag(100, least=1, quick=10)
    """Steps of each search."""
    num_draws: int = flag(3000, least=2, quick=2000)
    """Gradients drawn for bias and variance."""
    splits: int = flag(10, least=1, quick=5)
    """Splits of the UCI sets, from 1 to 20."""
