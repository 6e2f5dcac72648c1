"""A noisy line, from ten points to ten thousand (Gal, Hron & Kendall 2017, Fig. 1).

The noise of y = 2 x + 8 + e is known, so what a network takes for noise (aleatoric) and what it knows that it does not
know (epistemic) can be held against the truth, and the learned rates against the size of the data. Each network is
trained twice, once for half as many steps: where both agree, the figures are those of the objective and
not of the patience of whoever trained it. It is also trained with less dropout than the ELBO asks for, and held-out
points choose. Beside the published width of 1024 units stands one of 64, because the
entropy that pulls rates up grows with the number of units and shrinks with the number of data.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="a noisy line from 10 to 10,000 points: noise, ignorance and the learned rates against the truth",
    minutes=(39, 1),
    source="stored runs of Gal, Hron & Kendall 2017 (arXiv:1705.07832), Fig. 1",
    threads=None,
)

PUBLISHED: dict[str, dict[int, float]] = {
    "aleatoric": {10: 1.32, 10_000: 1.23},
    "epistemic": {10: 1.09, 10_000: 0.54},
    "hidden": {10: 0.40, 10_000: 0.13},
    "input": {10_000: 0.08},
}
"""Standard deviations and rates of the authors' stored runs, at the ends of the range."""


class Settings(BaseSettings):
    steps: int | None = flag(None, least=2)
    """Steps for up to a hundred points; twice as many for a thousand, four times for ten thousand. By default 1,000 for
    the published width of 1024 units and 2,000 for 64 units."""
