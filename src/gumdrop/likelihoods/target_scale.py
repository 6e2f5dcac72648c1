"""Where a target can lie, and on which scale a mixture of Gaussians describes it."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["identity", "sqrt", "log", "censored"]


@dataclass(unsafe_hash=True)  # not frozen, since Lightning copies the records that hold it field by field
class TargetScale:
    """Where a target can lie, and on which scale a mixture of Gaussians describes it.

    The scale is the target itself, or the square root or the logarithm of its distance from the bound. Gaussians of the
    first two are cut off where the target ends, and what is left is scaled to a probability of 1. If the target is
    censored, the bound is an atom, which has the probability of what is cut off.

    Raises:
        ValueError: If the kind is unknown, or a root or logarithm has no bound.
    """

    least: float = -math.inf
    """No target is below."""
    step: float = 0.0
    """Distance of the levels that it is recorded at, of which `least` is one; 0 if it is not recorded in steps."""
    kind: Kind = "identity"
    """The scale: ``target``, ``sqrt(target - bound)``, ``log(target - bound)``, or the target and what is below it."""
    atoms: tuple[float, ...] = ()
    """Values that have a probability of their own, ascending; the density is that of all others."""
    horizon: float = math.inf
    """Where moments of a logarithm end: what is beyond counts as if it were there (restricted mean survival time)."""
    counts: tuple[float, ...] = ()
    """Of a negative binomial for each draw: the factor on its mean, and its dispersion; empty if draws are Gaussian."""

    def __post_init__(self) -> None:
        """Check that there is such a scale."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"`kind` must be one of {get_args(Kind)}, got {self.kind!r}")
        if self.kind != "identity" and not math.isfinite(self.least):
            raise ValueError(f"`kind` {self.kind!r} needs a finite `least`, got {self.least}")

    @property
    def bound(self) -> float:
        """Lower end of the density: half a step below the least level, so that its cell is a whole one."""
        return self.least - self.step / 2

    @property
    def is_linear(self) -> bool:
        """Whether the scale is that of the target."""
        return self.kind in ("identity", "censored")

    @property
    def cuts(self) -> bool:
        """Whether Gaussians are cut off."""
        return math.isfinite(self.least) and self.kind != "log"

    @property
    def floor(self) -> float:
        """Where they are, on the scale."""
        return 0.0 if self.kind == "sqrt" else self.bound

    def to_gaussian(self, target: Tensor) -> Tensor:
        """Carry targets over to the scale; what is below the bound comes to lie at it."""
        if self.is_linear:
            return target.clamp(min=self.bound)
        distance = (target - self.bound).clamp(min=0.0)
        return distance.sqrt() if self.kind == "sqrt" else distance.log()

    def from_gaussian(self, value: Tensor) -> Tensor:
        """Carry values back; none is below the least target."""
        return self.unbounded(value).clamp(min=self.least)

    def unbounded(self, value: Tensor) -> Tensor:
        """Carry values back, down to the bound, which is below the least target by half a step."""
        if self.is_linear:
            return value
        return (value.square() if self.kind == "sqrt" else _finite(value).exp()) + self.bound

    def log_slope(self, value: Tensor) -> Tensor:
        """Log of the change of the target with a value on the scale, by which a density is divided."""
        if self.is_linear:
            return torch.zeros_like(value)
        return (2 * value).log() if self.kind == "sqrt" else _finite(value)

    def holds(self, target: Tensor) -> Tensor:
        """Which targets have a density."""
        return target >= self.bound if self.is_linear else target > self.bound

    def rescaled(self, factor: float, shift: float) -> "TargetScale":
        """The same of ``factor * target + shift``, with a positive factor."""
        atoms = tuple(factor * atom + shift for atom in self.atoms)
        horizon = factor * self.horizon + shift
        return TargetScale(factor * self.least + shift, factor * self.step, self.kind, atoms, horizon, self.counts)


PLAIN = TargetScale()
"""Any number, as it is."""


def _finite(value: Tensor) -> Tensor:
    """Exponents of what is a finite number, with room for a factor of 6,000: 80 in float32."""
    return value.clamp(max=math.log(torch.finfo(value.dtype).max) - 8.7)
