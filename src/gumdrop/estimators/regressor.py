"""Regression for scikit-learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state
from torch import Tensor
from torch.special import log_ndtr

from gumdrop.estimators.checks import check_far_cells, check_spread, checked, validated
from gumdrop.estimators.ensemble import GROWING, NUMBERS, ConcreteDropoutEnsemble
from gumdrop.estimators.learned import Columns, Learned
from gumdrop.estimators.part_known import ends_of, is_event, records_of, warn_of_event
from gumdrop.estimators.rows import chunks, distinct, moments
from gumdrop.estimators.targets import Units, scale_of
from gumdrop.likelihoods import PLAIN, HurdlePrediction, RegressionPrediction, TargetScale
from gumdrop.likelihoods.scaled_mixture import draw_moments
from gumdrop.machine.recording import stand_ins

if TYPE_CHECKING:
    from gumdrop.estimators.streaming import StreamedColumns
    from gumdrop.tables.schema.schema import Target


class ConcreteDropoutRegressor(MultiOutputMixin, RegressorMixin, ConcreteDropoutEnsemble):
    """Regression with learned dropout rates, intervals, and what is noise apart from what is not known.

    An ensemble of small networks, each with held-out rows that set its noise, which may depend on the inputs.
    Inputs and targets are standardised inside. Of a single target that ends at 0, such as a price or a count, no draw,
    quantile or interval is negative, and held-out rows decide between it, its root and its logarithm.

    Args:
        hidden_layer_sizes: Units of each hidden layer, or of the one, of networks that read the inputs as they are;
            None chooses sizes, and whether inputs are cut into bins, by held-out rows, see `gumdrop.ensembles.fit`.
        n_members: Networks of each strength; None for 10, and 5 from 10,000 rows on.
        max_iter: Epochs; None for what `gumdrop.ensembles.schedule` says, at least 20.
        batch_size: Rows per step; None for 128 to 1,024, more for more rows.
        learning_rate_init: Largest learning rate, for batches of a 16th of the rows; larger batches have up
            to twice that.
        lengthscale: Prior, see `gumdrop.kl_divergence`; None for that of `gumdrop.ensembles`.
        strength: What the entropy of the dropout masks counts, see `gumdrop.networks.set_strength`; None lets held-out
            rows choose, and takes 1 from 10,000 rows on and for a stream.
        early_stopping: Stop once no member gets better on its held-out rows; each keeps its best epoch. The cycle of
            the learning rate is laid out for ``max_iter`` epochs, so a run that stops never sees the small steps at its
            end: it is shorter, and seldom better. See ``docs/estimators.md``.
        n_iter_no_change: Epochs without such a gain after which it stops.
        tol: Gain in nats per row that counts.
        validation_fraction: Share of the rows that is held out from each member; the rows are cut into folds of
            this share, and each member does without one.
        n_mc_samples: Draws for a prediction, spread over the networks.
        conformal: Let intervals and quantiles hold what they promise by the rows that networks have not seen, see
            `gumdrop.likelihoods.conformal`.
        random_state: Seed, generator or None; a number gives the same model each time.
        device: Where to train and predict, such as ``"cuda"``; None for the CPU.
        verbose: Show a progress bar.

    Attributes:
        ensemble_: The `gumdrop.ensembles.RegressionEnsemble`, of standardised rows;
            ``ensemble_.scaling.scale.kind`` tells whether its networks see the target, its root or its logarithm.
        dropout_rates_: Learned rate of each layer of each network, inputs first, shape (n_networks, n_layers).
        strengths_: Strengths of dropout of the networks that were taken.
        levels_: The conformal levels, which count where ``conformal`` is set.
        history_: For each member a list with a `gumdrop.training.EpochRecord` for each epoch.
        n_iter_: Epochs that were made.

    Example:
        >>> X = np.linspace(-2, 2, 60).reshape(-1, 1)
        >>> model = ConcreteDropoutRegressor(n_members=2, max_iter=5, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> mean, std = model.predict(X, return_std=True)
        >>> lower, upper = model.predict_interval(X, coverage=0.9)
        >>> mean.shape, bool((lower < upper).all())
        ((60,), True)
    """

    _targets: ClassVar[dict[str, bool]] = {"multi_output": True, "y_numeric": True}

    def _checked(self, X: Any, y: Any, earlier: Learned | None = None) -> tuple[Columns, Any, np.ndarray]:
        if (records := records_of(y)) is not None:
            if self.conformal:
                raise ValueError("`conformal` needs targets that are seen in each row, and these are known in part")
            check_consistent_length(X, records)
            if earlier is not None:
                return earlier.columns, validated(self, X, **NUMBERS | GROWING), records
            inputs = checked(self, X, **NUMBERS)
            return Columns.of(X, inputs), inputs, records
        columns, inputs, targets = super()._checked(X, y, earlier)
        if targets.dtype.kind not in "biuf":
            raise ValueError(f"`y` must hold numbers, got {targets.dtype}; ConcreteDropoutClassifier takes labels")
        warn_of_event(targets, getattr(y, "columns", None))
        return columns, inputs, targets.astype(np.float64) if targets.dtype == bool else targets

    def _train(
        self,
        columns: Columns,
        inputs: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        together: np.ndarray | None = None,
    ) -> Learned:
        single, in_part = targets.ndim == 1, targets.dtype.names is not None
        known = ends_of(targets) if in_part else targets.reshape(len(targets), -1)
        numbers = stand_ins(known)[:, None] if in_part else known
        rows = distinct(inputs, known, weights, together)
        center, scale = moments(numbers, rows.indices, rows.weights)
        check_spread(numbers, rows.indices, scale)
        ends = scale_of(numbers[weights > 0])
        if in_part:  # there are no atoms, and no time is negative
            least = 0.0 if is_event(targets) else ends.least
            horizon = float(known[np.isfinite(known)].max()) if np.isfinite(least) else np.inf
            ends = replace(ends, least=least, atoms=(), horizon=horizon)
        if not np.isfinite(ends.least):  # others may be seen as logarithms
            check_far_cells(numbers, rows.indices, center, scale, lambda output: f"target {output} of `y`")
        precise = np.float32 if ends == PLAIN else np.float64  # near a bound small differences count
        standard = np.empty((len(rows.indices), known.shape[1]), dtype=precise)
        for part in chunks(len(standard)):
            standard[part] = (rows.y[rows.indices[part]] - center) / scale
        units = Units(single, in_part, center, scale, ends)
        factor, shift = 1 / float(scale[0]), -float(center[0]) / float(scale[0])
        return self._fit_ensemble(columns, rows, standard, units, ends.rescaled(factor, shift))

    def _describe(self, table: StreamedColumns) -> tuple[Target, Units]:
        target = table.regression_target()
        return target, Units(True, False, np.array([target.mean]), np.array([target.std]), PLAIN)

    def predict_distribution(self, X: ArrayLike) -> RegressionPrediction:
        """Predict a mixture of Gaussians for each row, with the epistemic and the aleatoric part of its variance.

        Keeps 2 numbers for each row, output and draw.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            A record of float64 tensors, shape (n_samples, n_outputs), in units of the target.
        """
        return self._distribution(*self._validated(X))

    def _predicted(self, X: ArrayLike) -> tuple[Learned, RegressionPrediction]:
        """Predict, and give the record that did it, whatever is fitted meanwhile."""
        now = copy.copy(self)
        prediction = now.predict_distribution(X)
        return now._learned, prediction

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict the mean, and how far off it may be.

        Args:
            X: Inputs, shape (n_samples, n_features).
            return_std: Give the standard deviation as well, of noise and of what is not known together.

        Returns:
            Mean, of the shape of the targets, and with ``return_std`` a pair of it and the standard deviation. Of times
            that are known in part both end at the largest one that training knows (restricted mean survival time).
        """
        mean, std = self._over(X, lambda prediction: (prediction.mean, prediction.std))
        return (mean, std) if return_std else mean

    def predict_quantiles(self, X: ArrayLike, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Predict quantiles.

        Args:
            X: Inputs, shape (n_samples, n_features).
            quantiles: Probabilities, strictly between 0 and 1.

        Returns:
            Shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles).
        """
        columns = self._over(X, lambda prediction: tuple(prediction.quantile(each) for each in quantiles))
        return np.stack(columns, axis=-1)

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a given probability.

        Args:
            X: Inputs, shape (n_samples, n_features).
            coverage: Probability, strictly between 0 and 1.

        Returns:
            Lower and upper ends, each of the shape of the targets.
        """
        lower, upper = self._over(X, lambda prediction: prediction.interval(coverage))
        return lower, upper

    def _conformity(self, X: ArrayLike, y: ArrayLike) -> Tensor:
        return torch.cat(self._beside(X, y, lambda prediction, target: prediction.conformity(target)))

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw targets; within a draw all rows share one function of the ensemble, and each has noise of its own size.

        The noise of several targets of a row has the correlation of held-out residuals. A row below the end of what is
        possible may take another function: there each counts by what is left of it.

        Args:
            X: Inputs, shape (n_rows, n_features).
            n_samples: Number of draws.
            random_state: Seed, generator or None.

        Returns:
            Shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples), in units of the target.
        """
        random = check_random_state(random_state)
        learned, prediction = self._predicted(X)
        means, variances = (part.cpu() for part in prediction.components())
        scale, rows = prediction.scale, np.arange(means.shape[1])
        drawn = _functions_of_rows(means, variances, scale, n_samples, random)
        mean, std = means[drawn, rows].numpy(), variances[drawn, rows].sqrt().numpy()
        noise_function: Any = learned.ensemble.noise
        sizes = noise_function.tail_factors(len(means)).sqrt().squeeze(1).cpu().numpy()
        std *= sizes[random.randint(len(sizes), size=mean.shape[:2])] / sizes[drawn]
        noise = random.standard_normal(mean.shape)
        if prediction.correlation is not None:
            noise = noise @ torch.linalg.cholesky(prediction.correlation).cpu().numpy().T
        if scale.cuts and scale.kind != "censored":  # from what is left above the bound
            least = ndtr((scale.floor - mean) / std)
            noise = ndtri(least + (1 - least) * random.uniform(size=mean.shape)).clip(max=8.0)  # deviations
            noise = np.maximum(noise, (scale.floor - mean) / std)  # however far the floor is
        values = scale.from_gaussian(torch.from_numpy(mean + std * noise)).numpy()
        if scale.counts:
            size, expected = 1 / scale.counts[1], draw_moments(means[drawn, rows], variances[drawn, rows], scale)[0]
            rates = (expected.numpy() - scale.least) / scale.step
            values = scale.least + scale.step * random.negative_binomial(size, size / (size + rates))
        if isinstance(prediction, HurdlePrediction) and scale.kind != "censored":
            ends, uniform = prediction.atom_probabilities.cpu().cumsum(1).numpy(), random.uniform(size=values.shape[:2])
            for k in reversed(range(ends.shape[1])):
                values[uniform < ends[:, k]] = scale.atoms[k]
        draws = np.moveaxis(values, 0, -1)
        return draws[:, 0] if learned.targets.single else draws

    def log_prob(self, X: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Log density of observed targets, all outputs together, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Observed targets, shape (n_samples,) or (n_samples, n_outputs); what is known in part as `fit` takes it
                counts by the probability of its interval.

        Returns:
            Shape (n_samples,).
        """
        return torch.cat(self._beside(X, y, lambda prediction, target: prediction.log_prob(target))).numpy()

    def _beside(self, X: ArrayLike, y: ArrayLike, of: Callable[[RegressionPrediction, Tensor], Tensor]) -> list[Tensor]:
        """What is said of some predictions and their targets after the others."""
        learned, rows = self._validated(X)
        check_consistent_length(rows, y)
        records = records_of(y)
        known = np.array(y, dtype=np.float64) if records is None else ends_of(records)
        targets = torch.from_numpy(known.reshape(rows.shape[0], -1))
        parts = []
        for part in chunks(rows.shape[0]):
            prediction = self._distribution(learned, rows[part])
            parts.append(of(prediction, targets[part].to(prediction.mean.device)).cpu())
        return parts

    def _distribution(self, learned: Learned, X: Any) -> RegressionPrediction:
        prediction, units = self._draw(learned, X), learned.targets
        scale, shift = (torch.from_numpy(each).to(prediction.mean) for each in (units.scale, units.center))
        result: RegressionPrediction = prediction.rescale(scale, shift)
        if result.scale == PLAIN:
            return result
        return result.on(replace(units.ends, kind=result.scale.kind, counts=result.scale.counts))  # 0 is 0

    def _over(self, X: Any, of: Callable[[RegressionPrediction], tuple[Tensor, ...]]) -> list[np.ndarray]:
        """Results for all rows, made of some at a time."""
        learned, rows = self._validated(X)
        parts = [of(self._distribution(learned, rows[part])) for part in chunks(rows.shape[0])]
        whole = [torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True)]
        return [each[:, 0] if learned.targets.single else each for each in whole]


def _functions_of_rows(means: Tensor, variances: Tensor, scale: TargetScale, count: int, random: Any) -> np.ndarray:
    """Which function each row has in each draw, (count, N): one for all, but where rows are cut off the first kept."""
    drawn = random.randint(len(means), size=(count, 1)).repeat(means.shape[1], 1)
    if scale.cuts and scale.kind != "censored" and not scale.counts:
        left = log_ndtr((means - scale.floor) / variances.sqrt())[:, :, 0].numpy()
        left, level = left - left.max(0), np.log(random.uniform(size=count))
        draws, rows = np.nonzero(level[:, None] > left[drawn, np.arange(means.shape[1])])
        while len(rows):
            function, level = random.randint(len(means), size=count)[draws], np.log(random.uniform(size=count))[draws]
            drawn[draws, rows] = function
            waits = level > left[function, rows]
            draws, rows = draws[waits], rows[waits]
    return drawn
