"""What regressor and classifier share: parameters, training, and the networks' view of the inputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gumdrop.ensembles import Architecture, EnsembleSettings, Rows, choose, fit
from gumdrop.ensembles.fitting import STREAMED, fit_streamed_ensemble, stream_schedule
from gumdrop.ensembles.rows import MIN_ROWS
from gumdrop.estimators.checks import check_far_cells, check_reach, checked, checked_weights, validated
from gumdrop.estimators.conformal import ConformalEstimator
from gumdrop.estimators.learned import Columns, Learned
from gumdrop.estimators.rows import (
    DistinctRows,
    StandardisedRows,
    dense,
    held_together,
    input_moments,
    standardised,
)
from gumdrop.estimators.targets import Targets
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import PLAIN, Lengthscale, TargetScale
from gumdrop.training.processes.group import process_group

if TYPE_CHECKING:
    from gumdrop.estimators.streaming import StreamedColumns
    from gumdrop.tables.schema.schema import Target

NUMBERS: dict[str, object] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_min_samples": MIN_ROWS}
"""What inputs to train on must be."""
GROWING: dict[str, object] = {"ensure_min_samples": 1}
"""What is asked of rows that are added to others."""


@dataclass(eq=False, repr=False)
class ConcreteDropoutEnsemble(ConformalEstimator, BaseEstimator):
    """What regressor and classifier share: parameters, training and the networks' view of the inputs."""

    hidden_layer_sizes: Sequence[int] | int | None = None
    _: KW_ONLY
    n_members: int | None = None
    max_iter: int | None = None
    batch_size: int | None = None
    learning_rate_init: float = 1e-2
    lengthscale: Lengthscale | None = None
    strength: float | None = None
    early_stopping: bool = False
    n_iter_no_change: int = 10
    tol: float = 1e-4
    validation_fraction: float = 0.2
    n_mc_samples: int = 100
    conformal: bool = False
    random_state: Any = None
    device: str | torch.device | None = None
    verbose: bool = False

    _targets: ClassVar[dict[str, bool]] = {}
    """How targets are validated."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Self:
        """Train on rows; a fit that is refused, diverges or is interrupted leaves the estimator as it was.

        Args:
            X: Inputs, shape (n_samples, n_features); a sparse matrix is made dense, see ``docs/estimators.md``.
            y: Targets, shape (n_samples,), or for a regression also (n_samples, n_outputs), or where they are known in
                part a structured array with the fields event (bool, true where the time was seen) and time, as of
                scikit-survival, or lower and upper end (equal where it was seen, infinite or NaN for none).
            sample_weight: A row of weight 3 counts as three equal rows, one of weight 0 not at all. Weights that only
                compare rows should have the mean 1: divide by ``w[w > 0].mean()``.
            groups: Label of the group that each row belongs to, such as a patient, shape (n_samples,): rows of one
                group are held out of a member together.
            times: Time of each row, numbers or dates, shape (n_samples,): rows of one tenth of the time are held out of
                a member together.

        Returns:
            This estimator.
        """
        self._check_settings()
        columns, inputs, targets = self._checked(X, y)
        weights = checked_weights(sample_weight, inputs)
        together = held_together(groups, times, weights)
        self._learned = self._train(columns, dense(inputs), targets, weights, together)
        return self

    def _checked(self, X: Any, y: Any, earlier: Learned | None = None) -> tuple[Columns, Any, np.ndarray]:
        """Validate rows to train on, which may follow those of a record, and see what columns they have."""
        if earlier is not None:
            inputs, targets = validated(self, X, y, **NUMBERS | GROWING, **self._targets)
            return earlier.columns, inputs, targets
        inputs, targets = checked(self, X, y, **NUMBERS, **self._targets)
        return Columns.of(X, inputs), inputs, targets

    def fit_stream(self, path: str | os.PathLike[str], target: str, *, columns: Sequence[str] | None = None) -> Self:
        """Train on the rows of a table that need not fit into memory, which is read in pieces.

        One pass takes the statistics and holds 4,096 rows out (at most half of the table); the others are passed over
        ``max_iter`` times, None for 2,500 steps and at least one pass. As in `fit`, all columns are
        numbers, and none is missing.

        Args:
            path: Parquet or Arrow file, or a folder of such files.
            target: Column to predict; rows that lack it are left out.
            columns: Columns to predict from, in the order in which `predict` gets them; all others if None.

        Returns:
            This estimator.

        Raises:
            ValueError: If the table cannot be read or used, or ``early_stopping`` is set: a stream is seldom passed
                over twice.
            ModuleNotFoundError: If the libraries that read tables are not installed.
        """
        try:
            from gumdrop.estimators.streaming import open_columns
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"streams need {error.name}: pip install 'gumdrop[parquet]'") from error
        self._check_settings()
        if self.early_stopping:
            raise ValueError("`early_stopping` must be False for a stream, got True: set `max_iter`, its passes")
        seed = process_group().from_first(self._drawn_seed)
        table = open_columns(path, target, columns, seed=seed)
        described, targets = self._describe(table)
        sizes = stream_schedule(table.found.num_known, batch_size=self.batch_size, passes=self.max_iter)
        rows, held_out = table.rows(described, sizes[0], seed)
        device = torch.device(self.device or "cpu")
        architecture = self._architecture() or Architecture(STREAMED)
        fitted = fit_streamed_ensemble(
            lambda: targets.network(len(table.names), architecture).to(device),
            rows,
            Rows(held_out[0].to(device), held_out[1].to(device)),
            self._settings(seed),
            targets.likelihood,
            progress=self.verbose,
        )
        self._learned = Learned.of(
            fitted,
            n_iter=sizes[1],
            columns=Columns(len(table.names), np.array(table.names, dtype=object)),
            center=table.center,
            scale=table.scale,
            targets=targets,
            architecture=architecture,
            seed=seed,
        )
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to those of earlier calls, and train on all of them: the same model as `fit` on all at once.

        The rows are kept in the estimator. As their number grows, less is unknown, and the learned rates fall. After
        `fit`, which keeps no rows, the first call begins anew.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Targets, as `fit` takes them, of one kind in all calls.
            sample_weight: A row of weight 3 counts as three equal rows, one of weight 0 not at all.

        Returns:
            This estimator.

        Raises:
            ValueError: If what is known of targets is told by other fields than in earlier calls.
        """
        self._learned = self._grown(X, y, sample_weight)
        return self

    @property
    def _growing(self) -> Learned | None:
        """The record of earlier calls to `partial_fit`, None if the last fit kept no rows."""
        learned: Learned | None = vars(self).get("_learned")
        return learned if learned is not None and learned.rows is not None else None

    def _grown(self, X: Any, y: Any, sample_weight: Any, **named: Any) -> Learned:
        """Learn from new rows and those of earlier calls."""
        self._check_settings()
        earlier = self._growing
        columns, inputs, targets = self._checked(X, y, earlier)
        rows: tuple[np.ndarray, ...] = (dense(inputs), targets, checked_weights(sample_weight, inputs))
        if earlier is not None and earlier.rows is not None:
            if (new := targets.dtype.names) != (old := earlier.rows[1].dtype.names):
                raise ValueError(f"`y` must have the fields of earlier calls, {old}, got {new}; `fit` begins anew")
            rows = tuple(np.concatenate(pair) for pair in zip(earlier.rows, rows, strict=True))
        return replace(self._train(columns, *rows, **named), rows=rows)

    def _train(
        self,
        columns: Columns,
        inputs: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        together: np.ndarray | None = None,
    ) -> Learned:
        """Learn from validated inputs (N, F), targets (N,) or (N, D), weights (N,) of at least 0, and sets (N,)."""
        raise NotImplementedError

    def _describe(self, table: StreamedColumns) -> tuple[Target, Targets]:
        """Find what the target of a stream is, for its encoding and for predictions."""
        raise NotImplementedError

    def _architecture(self) -> Architecture | None:
        """What was asked for, or None if it is to be chosen."""
        sizes = self.hidden_layer_sizes
        if sizes is None:
            return None
        hidden = tuple(np.atleast_1d(sizes).tolist())
        if not all(size >= 1 for size in hidden):
            raise ValueError(f"`hidden_layer_sizes` must hold positive numbers of units, got {sizes}")
        return Architecture(hidden)

    def _fit_ensemble(
        self, columns: Columns, rows: DistinctRows, y: np.ndarray, targets: Targets, scale: TargetScale = PLAIN
    ) -> Learned:
        """Train on encoded targets, which can lie where the scale says."""
        device = torch.device(self.device or "cpu")
        seed = process_group().from_first(self._drawn_seed)
        center, spread = input_moments(rows.x, rows.indices, rows.weights)
        check_far_cells(rows.x, rows.indices, center, spread, columns.words)
        x = StandardisedRows(rows.x, rows.indices, center, spread)
        weights = None if (rows.weights == 1).all() else torch.from_numpy(rows.weights)
        groups = None if rows.together is None else torch.from_numpy(rows.together)

        def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
            return targets.network(columns.width, architecture, encoding).to(device)

        data = build, Rows(x, torch.from_numpy(y), weights, groups), self._settings(seed), targets.likelihood
        options: Any = {"scale": scale, "progress": self.verbose}
        architecture = self._architecture() or choose(*data, **options)
        fitted = fit(*data, architecture=architecture, **options)
        found: Any = {"columns": columns, "center": center, "scale": spread, "targets": targets}
        return Learned.of(fitted, architecture=architecture, seed=seed, **found)

    def _settings(self, seed: int) -> EnsembleSettings:
        """The settings of training, by the names of `gumdrop.ensembles`."""
        return EnsembleSettings(
            num_members=self.n_members,
            epochs=self.max_iter,
            batch_size=self.batch_size,
            lr=self.learning_rate_init,
            lengthscale=self.lengthscale,
            strength=self.strength,
            held_out_fraction=self.validation_fraction,
            patience=self.n_iter_no_change if self.early_stopping else None,
            tol=self.tol,
            seed=seed,
        )

    def _drawn_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_settings(self) -> None:
        for name in ("n_members", "max_iter", "batch_size", "n_iter_no_change", "n_mc_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if not self.tol >= 0:
            raise ValueError(f"`tol` must be at least 0, got {self.tol}")
        if not 0 < self.validation_fraction <= 0.5:
            raise ValueError(f"`validation_fraction` must be above 0 and at most 1/2, got {self.validation_fraction}")

    def _draw(self, learned: Learned, X: Any) -> Any:
        """Predict validated rows, dense or sparse, in the units of the networks."""
        standard = standardised(self, X, learned.center, learned.scale)
        check_reach(X, standard, learned.columns.words)
        x = torch.from_numpy(standard)
        device = next(learned.ensemble.parameters()).device
        prediction = learned.ensemble.predict(x.to(device), num_samples=self.n_mc_samples, seed=learned.seed)
        return replace(prediction, levels=learned.levels) if self.conformal else prediction

    def _validated(self, X: Any) -> tuple[Learned, Any]:
        """The record that a prediction is made from, and rows to predict."""
        check_is_fitted(self)
        return self._learned, validated(self, X, dtype=NUMBERS["dtype"], accept_sparse="csr")
