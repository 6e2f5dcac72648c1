"""The models: each is trained on a split and gives the survival of its test rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.metrics import kaplan_meier
from gumdrop_experiments.survival.sources import Split


@dataclass(frozen=True, eq=False)
class Steps:
    """Survivals that are steps, as a prediction that can be scored."""

    times: Tensor
    """Where they are, ascending, shape (K,)."""
    above: Tensor
    """Survival from each of them on, shape (N, K)."""

    @property
    def mean(self) -> Tensor:
        """A number for each row, for its dtype and device."""
        return self.above[:, :1]

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most a value, or of (N, 1), shape (N, 1)."""
        at = value.expand(len(self.above), 1).contiguous()
        place = torch.searchsorted(self.times, at, right=True)
        return 1 - torch.cat([torch.ones_like(self.mean), self.above], dim=1).gather(1, place)


def _steps(model: Any, split: Split) -> Steps:
    model.fit(split.x_train, split.y_train)
    above = torch.from_numpy(model.predict_survival_function(split.x_test, return_array=True))
    return Steps(torch.from_numpy(model.unique_times_), above)


def _ours(split: Split, seed: int, epochs: int | None) -> Any:
    model = ConcreteDropoutRegressor(max_iter=epochs, random_state=seed).fit(split.x_train, split.y_train)
    return model.predict_distribution(split.x_test)


def _cox(split: Split, seed: int, epochs: int | None) -> Steps:
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    return _steps(CoxPHSurvivalAnalysis(alpha=0.1), split)


def _forest(split: Split, seed: int, epochs: int | None) -> Steps:
    from sksurv.ensemble import RandomSurvivalForest

    return _steps(RandomSurvivalForest(200, min_samples_leaf=15, random_state=seed), split)


def _blind(split: Split, seed: int, epochs: int | None) -> Steps:
    times = np.unique(split.y_train["time"])
    known, seen = (torch.from_numpy(split.y_train[field].copy()) for field in ("time", "seen"))
    above = kaplan_meier(known, seen, torch.from_numpy(times))
    return Steps(torch.from_numpy(times), above.expand(len(split.y_test), -1))


METHODS: dict[str, Callable[[Split, int, int | None], Any]] = {
    "gumdrop": _ours,
    "Cox": _cox,
    "survival forest": _forest,
    "Kaplan-Meier": _blind,
}
