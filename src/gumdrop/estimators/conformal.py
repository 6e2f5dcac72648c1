"""The conformal levels of an estimator: from its fit, from rows set aside, and from rows that follow."""

from dataclasses import replace
from typing import Self

from numpy.typing import ArrayLike
from torch import Tensor

from gumdrop.estimators.learned import LearnedEstimator
from gumdrop.likelihoods import ConformalLevels


class ConformalEstimator(LearnedEstimator):
    """An estimator that keeps conformal levels, and uses them if it is ``conformal``."""

    conformal: bool

    def conformalize(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take the conformal levels from rows that were set aside: what is promised is a theorem then.

        A new target is inside with a probability of at least that which is asked for, if its row and those set aside
        come from the same source, and at most 1/(n + 1) more where no two of n stand at the same place.

        Args:
            X: Inputs that the estimator was not fitted to, shape (n_samples, n_features).
            y: Targets, as `fit` takes them.

        Returns:
            This estimator, with the same networks.

        Raises:
            ValueError: If the estimator is not ``conformal``, or a target cannot be.
        """
        levels = ConformalLevels.of(self._checked_conformity(X, y))
        self._learned = replace(self._learned, levels=(levels,))
        return self

    def update(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Let the conformal levels follow rows whose targets have become known, see `ConformalLevels.updated`.

        Args:
            X: Inputs, in the order of time, shape (n_samples, n_features).
            y: Targets, as `fit` takes them.

        Returns:
            This estimator, with the same networks.

        Raises:
            ValueError: If the estimator is not ``conformal``, or a target cannot be.
        """
        conformity = self._checked_conformity(X, y)
        levels = self._learned.levels[0].updated(conformity)
        self._learned = replace(self._learned, levels=(levels,))
        return self

    def _checked_conformity(self, X: ArrayLike, y: ArrayLike) -> Tensor:
        if not self.conformal:
            raise ValueError("conformal levels are of estimators with `conformal=True`, and this one has none: set it")
        return self._conformity(X, y).cpu()

    def _conformity(self, X: ArrayLike, y: ArrayLike) -> Tensor:
        """Where targets stand in what is predicted of them, (N, D, 2)."""
        raise NotImplementedError
