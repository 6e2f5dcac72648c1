"""Choices of a search for a policy."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Advance = Callable[[Tensor, Tensor], Tensor]
"""Gives the next states, shape (K, P, D), from states and actions, shape (K, P), of K policies with P particles."""

NO_DROPOUT = 1e-80
"""A rate that float32 rounds to 0, so that no mask drops anything."""
HELD_OUT = 8
"""One transition in this many sets the noise, and does not train the weights."""
VALIDATION_SAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a policy is searched."""

    p: float = 0.1
    """Drop probability at the start; 0 for a network without dropout."""
    learned: bool = True
    """Learn it."""
    hidden: tuple[int, ...] = (200, 200)
    """Units of the hidden layers of the dynamics network."""
    lengthscale: float = 1.0
    """Prior of its weights, see `gumdrop.kl_divergence`."""
    log_variance: float = -4.0
    """Log variance of its noise at the start, of standardised changes."""
    model_steps: int = 800
    """Training steps of the network after each trial; it goes on from where the last trial left it."""
    model_lr: float = 4e-3
    """Largest learning rate of these."""
    batch_size: int = 50
    """Transitions in each."""
    num_policies: int = 8
    """Policies that are improved side by side."""
    policy_units: int = 32
    """Hidden units of a policy."""
    num_particles: int = 10
    """Particles of each policy."""
    policy_steps: int = 250
    """Improvements after each trial."""
    policy_lr: float = 0.02
    """Learning rate of the first of them; it falls to 0."""
    gradient_decay: float = 0.8
    """Factor on the gradient at each step that it goes back in time. An upright pole multiplies it by 1.6 at each, so
    without this the last steps of a roll-out drown all others."""
    moment_matching: bool = False
    """Draw the particles anew at each step from a Gaussian with their mean and covariance."""
