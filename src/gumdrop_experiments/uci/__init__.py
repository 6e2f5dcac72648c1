"""UCI regression: is a rate that is learned, with nothing to tune, as good as one that is searched for?

Every method trains on the same splits; nothing is chosen on a test part.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), and the clean grid search that
    its authors published with their code in 2018.
    Nadeau & Bengio 2003, "Inference for the Generalization Error" (Machine Learning 52), for the paired test.
"""

from dataclasses import replace
from typing import Self

from gumdrop_experiments.harness import About, BaseSettings, RunOptions, flag, known, sets_of

ABOUT = About(
    shows="learned dropout with nothing to tune against a grid search over rate and noise, on UCI regression",
    minutes=(80, 2),
    source="Gal, Hron & Kendall 2017, table 1; Gal & Ghahramani 2016, its authors' clean grid search of 2018",
    data=("uci",),
)

PUBLISHED: dict[str, list[tuple[str, str, str]]] = {
    "boston-housing": [("2.90 (.18)", "-2.40 (.04)", "-2.34*"), ("2.65", "-2.72", "")],
    "concrete-strength": [("4.83 (.16)", "-2.94 (.02)", "-2.82*"), ("4.46", "-3.51", "")],
    "energy": [("0.539 (.014)", "-1.21 (.01)", "-0.61"), ("0.46", "-2.30", "")],
    "kin8nm": [(".0789 (.0006)", "1.14 (.01)", "1.28"), (".07", "0.65", "")],
    "naval-propulsion-plant": [(".00074", "4.45", "6.33"), (".00", "5.87", "")],
    "power-plant": [("4.01 (.04)", "-2.81 (.01)", "-2.67*"), ("3.70", "-2.75", "")],
    "protein-tertiary-structure": [("4.27 (.02)", "-2.87 (.00)", "-2.63"), ("3.85", "-2.81", "")],
    "wine-quality-red": [("0.62 (.01)", "-0.93 (.01)", "-0.89"), ("0.62", "-1.70", "")],
    "yacht": [("0.67 (.05)", "-1.25 (.02)", "-0.73"), ("0.57", "-1.75", "")],
}
"""RMSE, log likelihood and best network seen: of the clean grid search, then of the Concrete Dropout paper."""


class Settings(BaseSettings):
    dataset: tuple[str, ...] = ()
    """Sets to run, by the names of their folders in DIR/uci; all by default."""
    methods: tuple[str, ...] = ()
    """Methods to run: gumdrop, one-member, dropout-off, grid, no-dropout, paper, deep-ensemble, peer, three-pass,
    two-pass; all but the last two by default."""
    splits: int | None = flag(None, least=1)
    """Splits to run; all of them by default."""
    regularisers: tuple[float, float] | None = flag(None, positive=True)
    """Factors on the squared weights and on the entropy of the masks, as published code has them: 0.01 100 in the
    report. For three-pass and two-pass, which have those of the ELBO without the flag; with it also the report's
    learning rate and targets in their units."""
    scheme_epochs: int = flag(30, least=1)
    """Epochs of each kind of pass of three-pass and two-pass, in ten turns with as many in each; 30 in the report."""

    def for_run(self, options: RunOptions) -> Self:
        """Name the sets and methods that were left open, from the folder of the data and from all methods."""
        from gumdrop_experiments.uci.methods import METHODS

        usual = tuple(key for key, method in METHODS.items() if method.default)
        return replace(
            self, dataset=sets_of(options, "uci", self.dataset), methods=known("method", self.methods, METHODS) or usual
        )
