"""What a fit learned: one record, which the next fit replaces as a whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from gumdrop.ensembles import Architecture, ClassificationEnsemble, EnsembleFit, RegressionEnsemble
from gumdrop.ensembles.models import Ensemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.layers import PiecewiseLinear
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import ConformalLevels
from gumdrop.networks.rates import dropout_rates
from gumdrop.training import EpochRecord


class Columns(NamedTuple):
    """The columns of the inputs."""

    width: int
    """Number of them."""
    names: np.ndarray | None
    """Their names, None where they have none of text."""

    @classmethod
    def of(cls, given: Any, inputs: Any) -> Columns:
        """See what columns inputs have, as they were given and as they were validated."""
        return cls(inputs.shape[1], _get_feature_names(given))

    def words(self, position: int) -> str:
        """What a message calls a column."""
        return f"column {position if self.names is None else repr(self.names[position])} of `X`"


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned:
    """All that predictions need of a fit; its pickle holds arrays of numpy in place of tensors and modules."""

    columns: Columns
    """The columns of the inputs."""
    center: np.ndarray
    """Mean of each of them."""
    scale: np.ndarray
    """Standard deviation of each of them."""
    targets: Any
    """The `Units` or `Classes` of the targets."""
    architecture: Architecture
    """Kind of the networks."""
    ensemble: Ensemble
    """The networks, in float64."""
    history: list[list[EpochRecord]]
    """Records of the epochs of each member."""
    n_iter: int
    """Epochs, or passes over a stream."""
    strengths: tuple[float, ...]
    """Strengths of dropout of the networks."""
    levels: tuple[ConformalLevels, ...]
    """The conformal levels; none of targets that are known in part."""
    seed: int
    """Seed of predictions."""
    rows: tuple[np.ndarray, ...] | None = None
    """Inputs, targets and weights that `partial_fit` adds to; None after a fit that keeps none."""

    @classmethod
    def of(cls, fitted: EnsembleFit, *, n_iter: int | None = None, **found: Any) -> Learned:
        """Take a trained ensemble, and what was found of the rows before."""
        known = ~fitted.conformity.isnan().any(-1).any(-1)
        history = [member.history for member in fitted.members]
        return cls(
            ensemble=fitted.model.double().eval(),
            history=history,
            n_iter=n_iter or len(history[0]),
            strengths=fitted.strengths,
            levels=(ConformalLevels.of(fitted.conformity[known]),) if known.any() else (),
            **found,
        )

    @property
    def dropout_rates(self) -> np.ndarray:
        """Rate of each layer of each network, (n_networks, n_layers)."""
        return np.array([list(dropout_rates(member).values()) for member in self.ensemble.members])

    def __getstate__(self) -> dict[str, Any]:
        """Return the record as numbers and arrays, which need no code of torch to be read again."""
        tensors = self.ensemble.state_dict()
        levels = [(each.central.cpu().numpy(), each.signed.cpu().numpy()) for each in self.levels]
        return vars(self) | {
            "ensemble": {name: value.cpu().numpy() for name, value in tensors.items()},
            "device": str(next(self.ensemble.parameters()).device),
            "num_members": len(self.ensemble.members),
            "num_bins": _num_bins(self.ensemble),
            "of_sites": [site.strength for site in sites_of(self.ensemble)],
            "history": json.dumps([[asdict(epoch) for epoch in member] for member in self.history]),
            "levels": levels,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Build the networks again around their numbers."""
        own = {name: value for name, value in state.items() if name in self.__dataclass_fields__}
        own["ensemble"] = _ensemble_of(state)
        own["history"] = [[EpochRecord(**epoch) for epoch in member] for member in json.loads(state["history"])]
        own["levels"] = tuple(ConformalLevels(*map(torch.tensor, each)) for each in state["levels"])
        self.__dict__.update(own)


def of_fit(name: str) -> Any:
    """Make an attribute of an estimator of a field of its record, which is there once a fit came to its end."""

    def value(estimator: Any) -> Any:
        check_is_fitted(estimator)
        return getattr(estimator._learned, name)

    return property(value)


class LearnedEstimator:
    """An estimator whose attributes are those of its record."""

    _learned: Learned

    ensemble_ = of_fit("ensemble")
    dropout_rates_ = of_fit("dropout_rates")
    strengths_ = of_fit("strengths")
    levels_ = of_fit("levels")
    history_ = of_fit("history")
    n_iter_ = of_fit("n_iter")

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        check_is_fitted(self)
        return self._learned.columns.width

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns, where they have names of text."""
        check_is_fitted(self)
        if (names := self._learned.columns.names) is None:
            raise AttributeError("the columns that this estimator was fitted to have no names of text")
        return names

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return "_learned" in vars(self)


def _num_bins(ensemble: Ensemble) -> int:
    """Bins that the inputs of each network are cut into, in all."""
    layers: list[Any] = list(ensemble.members[0].children())
    return sum(layer.num_bins for layer in layers if isinstance(layer, PiecewiseLinear))


def _ensemble_of(state: dict[str, Any]) -> Ensemble:
    """Build an ensemble around its numbers; on the CPU where its device is not there."""
    width, targets, num_bins = state["columns"].width, state["targets"], state["num_bins"]
    with torch.device("meta"):
        networks = [
            targets.network(width, state["architecture"], PiecewiseLinear(width, num_bins) if num_bins else None)
            for _ in range(state["num_members"])
        ]
        ensemble: Ensemble = ClassificationEnsemble(networks)
        if targets.likelihood.is_density:
            ensemble = RegressionEnsemble(networks, NoiseFunction(width, len(targets.center)))
    ensemble.load_state_dict({name: torch.tensor(value) for name, value in state["ensemble"].items()}, assign=True)
    for site, strength in zip(sites_of(ensemble), state["of_sites"], strict=True):
        site.strength = strength
    is_there = torch.cuda.is_available() or not state["device"].startswith("cuda")
    return ensemble.to(state["device"] if is_there else "cpu").eval()
