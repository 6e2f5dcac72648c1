"""What a wrong dropout rate costs: no dropout, fixed rates, a grid and learned ones, each on tables that want another.

No rate is right for every table. The regret of a method on a table is what it loses on the best rate for that table;
its worst regret over many tables is what a person risks who cannot tune.
"""

from typing import Self

from gumdrop_experiments.harness import About, BaseSettings, RunOptions, flag

ABOUT = About(
    shows="what a wrong rate costs: none, fixed, a grid and learned ones, over tables that want different rates",
    minutes=(90, 2),
    source="none; the tables are UCI's, airfoil, bike sharing, MNIST, those of scikit-learn and simulated ones",
    data=("tables", "uci", "mnist"),
)


class Settings(BaseSettings):
    dataset: tuple[str, ...] = flag((), known=("table", "gumdrop_experiments.rates.sets.SETS"))
    """Tables to run; all by default."""
    splits: int | None = flag(None, least=1)
    """Splits of a table at most; by default 10, and fewer of long tables."""
    arms: tuple[str, ...] = flag((), known=("arm", "gumdrop_experiments.rates.results.ARM_LABELS"))
    """Other ways to a rate to try beside: sites, front, hidden, pool, draws, response; none by default."""

    def for_run(self, options: RunOptions) -> Self:
        """Check the names, and that there is a table for the regret."""
        from gumdrop_experiments.rates.sets import SETS

        settings = super().for_run(options)
        if self.dataset and all(SETS[name].gaps or SETS[name].most_steps for name in self.dataset):
            raise ValueError(
                f"`dataset` must name a table for the regret, which is neither of gaps nor long, such as boston; got "
                f"{', '.join(self.dataset)}"
            )
        return settings
