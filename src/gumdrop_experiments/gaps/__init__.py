"""Held-out middles and ends of the UCI sets: does a method know what it has not seen?

A random split asks for rows like those of the training part. A gap split sorts the rows by one input and holds out the
middle third, a tail split both outer sixths; there is one for each input. Methods whose doubt does not grow there are
sure and wrong.

References:
    Foong, Li, Hernandez-Lobato & Turner 2019, "'In-Between' Uncertainty in Bayesian Neural Networks"
    (arXiv:1906.11537), for the gap splits, and "Pathologies of Factorised Gaussian and MC Dropout Posteriors in
    Bayesian Neural Networks" (arXiv:1909.00719).
"""

from dataclasses import replace
from typing import Self

from gumdrop_experiments.harness import About, BaseSettings, RunOptions, flag, known, sets_of

ABOUT = About(
    shows="methods on held-out middles and ends of each input of the UCI sets, beside random splits",
    minutes=(150, 3),
    estimated=True,
    source="Foong et al. 2019, log likelihood on gap splits",
    data=("uci",),
)

PUBLISHED: dict[str, dict[str, float]] = {
    "boston-housing": {"MC dropout": -2.51, "ensemble": -2.69},
    "concrete-strength": {"MC dropout": -3.44, "ensemble": -3.36},
    "kin8nm": {"MC dropout": 1.10, "ensemble": 1.21},
    "wine-quality-red": {"MC dropout": -0.96, "ensemble": -1.03},
}
"""Mean log likelihood over the gap splits of a set, in nats per row and units of the target."""


class Settings(BaseSettings):
    dataset: tuple[str, ...] = ()
    """Sets to run, by the names of their folders in DIR/uci; all by default."""
    methods: tuple[str, ...] = flag((), known=("method", "gumdrop_experiments.tables.methods.METHODS"))
    """Methods to run, by the names that `gumdrop reproduce tables` has; gumdrop, fixed, mc-dropout, deep-ensemble,
    ngboost, catboost and forest by default."""
    kinds: tuple[str, ...] = ()
    """Splits to run: random, gap, tail; all by default."""
    splits: int | None = flag(None, least=1)
    """Splits of each kind at most; all of them by default."""

    def for_run(self, options: RunOptions) -> Self:
        """Name the sets that were left open, from the folder of the data, and the kinds."""
        from gumdrop_experiments.data.uci import KINDS

        dataset = sets_of(options, "uci", self.dataset)
        kinds = known("kind of split", self.kinds, KINDS) or KINDS
        return replace(super().for_run(options), dataset=dataset, kinds=kinds)
