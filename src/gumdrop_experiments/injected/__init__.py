"""Networks that are trained already: what rates from held-out rows are worth, beside other ways.

Nine networks are trained without a thought of rates, some without dropout and some with rates of their own. Then
their weights stay, and held-out rows give each a temperature (of numbers, a scale of the noise) alone; one rate from a
grid, as Ledda, Fumera & Roli inject dropout; a Laplace approximation of the last layer; or `fit_rates`. Beside them
stand the rates that a network was trained with, and an ensemble of five. Every way has its temperature from the same
held-out rows, but for the rates of the training, which people take as they are.

Rows that are like none of the data are told by what functions disagree on, by three scores of the last layer's features
and by the distance of `fit_rates`, see `far.py`.

References:
    Ledda, Fumera & Roli 2023, "Dropout Injection at Test Time for Post Hoc Uncertainty Quantification in Neural
    Networks" (arXiv:2302.02924).
    Daxberger et al. 2021, "Laplace Redux: Effortless Bayesian Deep Learning" (arXiv:2106.14806).
    Lakshminarayanan, Pritzel & Blundell 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep
    Ensembles" (arXiv:1612.01474).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="rates for nine trained networks by held-out rows, beside temperature, a grid, Laplace and an ensemble",
    minutes=(85, 4),
    source="none; dropout injection is that of Ledda, Fumera & Roli 2023 (arXiv:2302.02924)",
    data=("uci", "mnist", "sst", "camvid"),
    estimated=True,
)


class Settings(BaseSettings):
    networks: tuple[str, ...] = flag((), known=("network", "gumdrop_experiments.injected.tasks.TASKS"))
    """Networks to train; all by default."""
    splits: int = flag(5, least=1, quick=1)
    """Networks of each table, each on a split of its own."""
    seeds: int = flag(2, least=1, quick=1)
    """Networks for pictures and texts; the BERT and that of streets are trained once."""
    members: int = flag(5, least=2, quick=2)
    """Networks of an ensemble."""
    epochs: int | None = flag(None, least=1, quick=1)
    """Passes over the training rows; by default 40 to 150 for tables, 30 for digits, 10 for MNIST, 6 for texts, 3 for
    streets."""
    num_samples: int = flag(30, least=2, quick=10)
    """Draws of a prediction."""
