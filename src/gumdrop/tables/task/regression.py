"""The target is a number."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.scaling import which_atom
from gumdrop.likelihoods import PLAIN, Gaussian, HurdlePrediction, RegressionPrediction, TargetScale
from gumdrop.likelihoods.hurdle import gaussian_on
from gumdrop.machine.numerals import cell, readable
from gumdrop.metrics.crps import crps
from gumdrop.metrics.scores import central_coverage, interval_coverage, rmse
from gumdrop.tables.errors import TableError
from gumdrop.tables.results import LIKELIHOOD, LINEAR, STEP_LIKELIHOOD, Calibration, RegressionRows
from gumdrop.tables.schema.cells import numbers_of
from gumdrop.tables.task.base import Measure, TableTask, mean_log_prob

KINDS = {
    "identity": "predicted densities end there",
    "sqrt": "held-out rows prefer its square root to the number itself",
    "log": "held-out rows prefer its logarithm to the number itself",
    "censored": "held-out rows prefer a Gaussian that is censored there to a hurdle",
}
"""What networks see of a target that ends at 0, for the reader."""
MOST_LEVELS = 100
"""Levels that have a column each."""


@dataclass(frozen=True)
class Regression(TableTask[RegressionPrediction]):
    """Predict a number."""

    null_model = "mean of the training part"
    epistemic = "epistemic_std"

    @property
    def likelihood(self) -> Gaussian:
        """Gaussian, beside atoms where many rows share a value."""
        return gaussian_on(self.scale)

    @property
    def likelihood_words(self) -> str:
        """Gaussian, and the atoms."""
        words = (
            f"Gaussian{self._or_counts} for each draw, with noise that depends on the inputs; a mixture of them in all"
        )
        return f"{words}; beside it a probability of {self._atoms}" if self.target.atoms else words

    @property
    def _or_counts(self) -> str:
        has_cells = self.target.step and self.target.positive and not self.target.atoms
        return " (negative binomial where a note says so)" if has_cells else ""

    @property
    def _atoms(self) -> str:
        return " and ".join(map(cell, self.target.atoms))

    @property
    def notes(self) -> list[str]:
        """The values that many rows share, the steps that the target is recorded in, and what is made of them."""
        name, atoms = self.target.name, []
        if self.target.atoms:
            columns = ", ".join(f"'p({atom:.10g})'" for atom in self.target.atoms)
            atoms = [f"many rows have a '{name}' of exactly {self._atoms}: predictions give the probability, {columns}"]
        return atoms + self._step_notes

    @property
    def _step_notes(self) -> list[str]:
        steps = self.target.steps
        if steps is None:
            return []
        few = "; `gumdrop predict --levels` gives the probability of each level" if steps.count <= MOST_LEVELS else ""
        return [f"'{self.target.name}' is recorded in {steps.words}: scores have the log probability of a step{few}"]

    @property
    def scale(self) -> TargetScale:
        """At or above 0 if all training values are, and not by chance."""
        return self._scale_in_units.rescaled(1 / self.target.std, -self.target.mean / self.target.std)

    @property
    def _scale_in_units(self) -> TargetScale:
        if not self.target.positive:
            return TargetScale(atoms=self.target.atoms)
        horizon = self.target.last if self.target.known and self.target.last else math.inf
        return TargetScale(least=0.0, step=self.target.step, atoms=self.target.atoms, horizon=horizon)

    def scale_notes(self, ensemble: RegressionEnsemble) -> list[str]:
        """That there is nothing below 0, what kind of density follows, and that it has heavy tails."""
        name, kind = self.target.name, KINDS[ensemble.scaling.scale.kind]
        ends = f"'{name}' is never below 0 in training: {kind}, and no interval reaches below 0"
        tails = f"the noise of '{name}' has heavy tails: held-out rows prefer those of Student's t"
        counts = f"the counts of '{name}' are negative binomial: held-out rows prefer it to Gaussian noise"
        notes = [ends] * self.target.positive + [tails] * bool((ensemble.noise.bend > 0).any())
        return notes + [counts] * bool(ensemble.noise.counts.any())

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the training values."""
        return self.target.mean, self.target.std

    @property
    def num_outputs(self) -> int:
        """The number, and a logit for each atom."""
        return 1 + len(self.target.atoms)

    def ensemble(self, members: Sequence[nn.Module], num_features: int) -> RegressionEnsemble:
        """Put networks together, with a noise that depends on the inputs."""
        return RegressionEnsemble(members, NoiseFunction(num_features, 1))

    def baselines(
        self, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int
    ) -> dict[str, Callable[[], RegressionPrediction]]:
        """Predict with trees and a line."""
        from gumdrop.tables.baselines import boosted_regression, linear_regression  # half a second

        which = which_atom(y_train, self.scale.atoms)
        x_train, outside = x_train[which == 0], y_train[which == 0]
        return {
            "gradient-boosted trees": lambda: self._beside(which, boosted_regression(x_train, outside, x, seed=seed)),
            LINEAR: lambda: self._beside(which, linear_regression(x_train, outside, x, seed=seed)),
        }

    def predict_null(self, y_train: Tensor, num_rows: int) -> RegressionPrediction:
        """Predict with the mean and the variance of the training targets."""
        from gumdrop.tables.baselines import mean_of_targets

        which = which_atom(y_train, self.scale.atoms)
        return self._beside(which, mean_of_targets(y_train[which == 0], num_rows))

    def _beside(self, which: Tensor, density: RegressionPrediction) -> RegressionPrediction:
        """A density in units, beside atoms that have the share of training, so that its scores are of the same kind."""
        if not self.target.atoms:
            return self.in_units(density)
        shares = torch.stack([(which == k).float().mean() for k in range(1, len(self.target.atoms) + 1)])
        assert density.draw_means is not None
        draw_atoms = shares.expand(*density.draw_means.shape[:2], -1)
        return self.in_units(HurdlePrediction(**vars(density), draw_atoms=draw_atoms))

    def in_units(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Undo the standardisation, in float64 where the values need it."""
        dtype = torch.float64 if self.target.needs_float64 else torch.float32
        parts = {name: part.to(dtype) for name, part in vars(prediction).items() if isinstance(part, Tensor)}
        exact: RegressionPrediction = replace(prediction, **parts)  # type: ignore[arg-type]
        result = exact.rescale(self.target.std, self.target.mean)
        if result.scale != PLAIN:
            # 0 is 0
            return result.on(replace(self._scale_in_units, kind=result.scale.kind, counts=result.scale.counts))
        return result.on(TargetScale(atoms=self.target.atoms)) if isinstance(result, HurdlePrediction) else result

    def columns(self, prediction: RegressionPrediction, coverage: float) -> dict[str, np.ndarray]:
        """Mean, spread, interval, and the parts of the spread."""
        lower, upper = prediction.interval(coverage)
        columns = {"prediction": prediction.mean, "std": prediction.std, "lower": lower, "upper": upper}
        columns |= {"epistemic_std": prediction.epistemic.sqrt(), "aleatoric_std": prediction.aleatoric.sqrt()}
        if isinstance(prediction, HurdlePrediction):
            probabilities = prediction.atom_probabilities.split(1, dim=1)
            columns |= {f"p({atom:.10g})": p for atom, p in zip(self.target.atoms, probabilities, strict=True)}
        return {name: value.squeeze(1).numpy() for name, value in columns.items()}

    def columns_on_request(
        self, prediction: RegressionPrediction, quantiles: Sequence[float], at: Sequence[float], levels: bool
    ) -> dict[str, np.ndarray]:
        """Of the mixture, so that quantiles agree with the interval; above times it is the survival."""
        answers = {f"q{100 * p:.12g}": prediction.quantile(p) for p in quantiles}
        answers |= {f"p(>{v:.10g})": 1 - prediction.cdf(prediction.mean.new_tensor(self._end_of(v))) for v in at}
        columns = {name: each.squeeze(1).numpy() for name, each in answers.items()}
        return columns | self.levels(prediction) if levels else columns

    def _end_of(self, value: float) -> float:
        """Where the next level begins, half a step above the last one that is not above a value; at an atom at once."""
        steps = self.target.steps
        if steps is None or self.target.known:
            return value
        level = steps.first + steps.size * math.floor((value - steps.first) / steps.size + 1e-6)
        atoms = (atom for atom in self.target.atoms if abs(atom - level) < steps.size / 4)  # the size is rounded
        return next(atoms, level + steps.size / 2)

    def levels(self, prediction: RegressionPrediction) -> dict[str, np.ndarray]:
        """Of the cells of one step around the levels of training."""
        steps = self.target.steps
        name, way_out = self.target.name, "leave it away, or see `--quantiles`"
        if steps is None and self.target.atoms:
            return {}  # whose probabilities every prediction has
        if steps is None:
            raise TableError(f"`--levels` are of a target that is recorded in steps, and '{name}' is not: {way_out}")
        if steps.count > MOST_LEVELS:
            raise TableError(
                f"`--levels` writes at most {MOST_LEVELS} columns, and '{name}' has {steps.count:,} levels: {way_out}"
            )
        probabilities = prediction.level_probabilities(steps.levels.tolist(), steps.size).squeeze(1).numpy()
        return {f"p({level:.10g})": each for level, each in zip(steps.levels, probabilities.T, strict=True)}

    def observed(self, encoded: np.ndarray, cells: pd.Series) -> Tensor:
        """Targets in units, in float64."""
        return torch.from_numpy(numbers_of(self.target.name, cells)).unsqueeze(1)

    def test_rows(self, encoded: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Draw rows at random."""
        from sklearn.model_selection import train_test_split

        return np.asarray(train_test_split(np.arange(len(encoded)), test_size=count, random_state=seed)[1])

    def measures(self, coverage: float, unit: str, num_samples: int) -> dict[str, Measure]:
        """Error, error of the whole distribution, log likelihood, and coverage."""
        where, step = f"in {unit or f'units of {self.target.name}'}", self.target.step
        ends = ", of the target or its root or logarithm, that end at 0" if self.target.positive else ""
        mixture = f"of this model an equal mixture of {num_samples} Gaussians{ends}{self._or_counts}"
        mixture += f", beside a probability of {self._atoms}" if self.target.atoms else ""
        at_atoms = f", at {self._atoms} its log probability" if self.target.atoms else ""
        measures = {
            "RMSE": Measure("lower", f"root mean squared error, {where}", lambda p, y: rmse(p.mean, y)),
            "CRPS": Measure("lower", f"error of the whole predicted distribution, {mixture}, {where}", crps),
        }
        density = f"log density that this mixture gives to the observed value{at_atoms}, in nats per row"
        measures[LIKELIHOOD] = Measure("higher", f"{density} (it depends on the unit)", mean_log_prob)
        if step:
            mass = (
                f"log of the probability of the observed value as it is recorded, in steps of {cell(step)}, in nats per"
            )
            beside = "row; unlike the density, it cannot be raised by piling up on the levels"
            measures[STEP_LIKELIHOOD] = Measure(
                "higher", f"{mass} {beside}", lambda p, y: p.log_probability(y - step / 2, y + step / 2).mean()
            )
        inside = f"share of test rows inside their interval; should be {coverage:.0%}"

        def held(prediction: RegressionPrediction, observed: Tensor) -> Tensor:
            return interval_coverage(*prediction.interval(coverage), observed)

        return measures | {f"coverage of {coverage:.0%} interval": Measure("target", inside, held)}

    def guess_gains(
        self, ours: RegressionPrediction, other: RegressionPrediction, observed: Tensor
    ) -> tuple[str, Tensor]:
        """How much nearer the truth each guess is."""
        return "distance", ((other.mean - observed).abs() - (ours.mean - observed).abs()).flatten()

    def calibration(self, prediction: RegressionPrediction, observed: Tensor) -> Calibration:
        """Of central intervals of all sizes; one that is an atom alone promises the probability of that."""
        levels = torch.arange(5, 100, 5) / 100
        stated = levels.tolist()
        if isinstance(prediction, HurdlePrediction):
            stated = [prediction.mass_between(*prediction.interval(level)).mean().item() for level in stated]
        return Calibration(stated, central_coverage(prediction, observed, levels).tolist())

    def promises(self, tested: pd.DataFrame, observed: Tensor, coverage: float) -> tuple[np.ndarray, np.ndarray] | None:
        """That the number lies in its interval."""
        truth = observed.squeeze(1).numpy()
        held = (tested["lower"].to_numpy() <= truth) & (truth <= tested["upper"].to_numpy())
        stated = np.full(len(tested), coverage)
        for name in (f"p({atom:.10g})" for atom in self.target.atoms):  # an interval can be an atom alone
            stated = np.where(tested["lower"] == tested["upper"], np.maximum(stated, tested[name]), stated)
        return held, stated

    def rows(self, tested: pd.DataFrame) -> RegressionRows:
        """The test part, for the results."""
        names = ("row", "observed", "lower", "upper", "epistemic_std", "aleatoric_std")
        columns: dict[str, list[Any]] = {name: tested[name].tolist() for name in names}
        return RegressionRows(mean=tested["prediction"].tolist(), **columns)

    def words(self, row: pd.Series) -> tuple[str, str]:
        """The number, and its interval."""
        interval = " to ".join(readable(float(row[end])) for end in ("lower", "upper"))
        return readable(float(row["prediction"])), interval

    def explained(self, prediction: RegressionPrediction, labels: Tensor | None) -> Tensor:
        """The predicted number, and the standard deviation of the drawn functions."""
        return torch.cat([prediction.mean, prediction.epistemic.sqrt()], dim=1)

    def answer(self, output: Tensor) -> Tensor:
        """The mean, and the logits of atoms."""
        return output.chunk(2, dim=-1)[0].sum(-1)
