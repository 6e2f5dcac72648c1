"""The flags of `co2`."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, known

KINDS = ("scripts", "fixed", "narrow", "held", "learned")
"""Kinds of networks, each of ReLU and of tanh units; `gumdrop_experiments.co2.networks.NETWORKS` builds them."""


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `co2`."""

    steps: int = 20_000
    """Steps of the networks with fixed rates, each on all 272 months. The tutorial's scripts have 1,000,000."""
    learned_steps: int = 100_000
    """Steps of those that learn their rates."""
    width: int = 1024
    """Units of a hidden layer at most."""
    num_samples: int = 10_000
    """Functions that are drawn from each network."""
    chains: int = 2
    """Chains of the sampled Gaussian process."""
    chain_draws: int = 5000
    """Draws that each chain keeps, after two fifths as many to tune the sampler."""
    bfloat16: bool = False
    """Train in bfloat16 where that is safe."""
    networks: tuple[str, ...] = dataclasses.field(default=(), metadata={"recorded": False})
    """Kinds of networks to train now, of scripts, fixed, narrow, held and learned; all by default. More of them can be
    added with --resume. Networks that an earlier run has trained, or began to train, are reported as they are."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "steps", "learned_steps", "width", "num_samples", "chains")
        at_least(self, 10, "chain_draws")

    def for_run(self, options: RunOptions) -> Self:
        """Check the kinds of networks."""
        known("kind of network", self.networks, KINDS)
        return super().for_run(options)

    def quick(self) -> Self:
        """Return settings for narrower networks, few steps and few draws."""
        most = {"steps": 2000, "learned_steps": 2000, "width": 128, "num_samples": 300, "chain_draws": 300}
        return replace(self, **{name: min(getattr(self, name), value) for name, value in most.items()})
