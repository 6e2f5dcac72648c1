"""What is found of targets before training: where they lie, and which networks suit them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import nn

from gumdrop.ensembles import Architecture
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import PLAIN, Categorical, Gaussian, Likelihood, PartKnown, TargetScale
from gumdrop.likelihoods.hurdle import gaussian_on
from gumdrop.machine.recording import atoms_of, stays_positive, steps_of


class Targets(ABC):
    """Description of the targets."""

    likelihood: Likelihood
    """Likelihood that networks are trained on."""

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """Numbers that a network gives, beside a variance."""

    def network(
        self, num_inputs: int, architecture: Architecture, encoding: PiecewiseLinear | None = None
    ) -> nn.Module:
        """Build a network, of numbers with one variance."""
        is_density = self.likelihood.is_density
        return architecture.network(num_inputs, self.num_outputs, encoding, homoscedastic_noise=is_density)


@dataclass(frozen=True, eq=False)
class Units(Targets):
    """What the targets of a regression are, and the way back to their units."""

    single: bool
    """Whether they have no dimension of outputs."""
    in_part: bool
    """Whether they are ends of what is known."""
    center: np.ndarray
    """Mean of each output."""
    scale: np.ndarray
    """Standard deviation of each output."""
    ends: TargetScale
    """Where they can lie."""

    @property
    def likelihood(self) -> Gaussian:  # type: ignore[override]
        """Likelihood that networks are trained on."""
        return PartKnown() if self.in_part else gaussian_on(self.ends)

    @property
    def num_outputs(self) -> int:
        """Means, and logits of atoms."""
        return len(self.center) + len(self.ends.atoms)


@dataclass(frozen=True, eq=False)
class Classes(Targets):
    """The labels that there are."""

    classes: np.ndarray
    """All of them, sorted."""
    named: np.ndarray | None = None
    """Those that `partial_fit` was told of."""

    likelihood: ClassVar[Likelihood] = Categorical()  # type: ignore[misc]

    def __post_init__(self) -> None:
        """Refuse a single class."""
        if len(self.classes) < 2:
            raise ValueError(f"a classifier needs rows of at least 2 classes, got the class {self.classes.tolist()}")

    @property
    def num_outputs(self) -> int:
        """Logits of a network."""
        return len(self.classes)


def scale_of(targets: np.ndarray) -> TargetScale:
    """Where targets, shape (N, D), can lie: at or above 0 if there is one output whose training values all are."""
    if targets.shape[1] > 1:
        return PLAIN
    atoms, steps = atoms_of(targets[:, 0]), steps_of(targets[:, 0])
    if not stays_positive(targets[:, 0]):
        return TargetScale(atoms=atoms)
    return TargetScale(least=0.0, step=0.0 if steps is None else steps.size, atoms=atoms)
