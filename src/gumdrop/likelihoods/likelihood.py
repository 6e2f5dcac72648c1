"""What the output of a network says of a target: a likelihood to train on, which makes a prediction of draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

Lengthscale = float | Literal["classification", "regression", "fan_in", "weak", "faint"]
"""Prior of the weights, see `gumdrop.kl_divergence`."""


@dataclass(frozen=True)
class Likelihood(ABC):
    """A distribution of targets, with the parameters that a network gives."""

    name: ClassVar[str]
    """What strings call it."""
    is_density: ClassVar[bool] = False
    """Whether it is a density with a noise that is learned, which has no bound: a network that knows its rows by heart
    calls them noiseless and gains without end. Classes and counts leave at most the nats of a guess to gain."""
    has_open_targets: ClassVar[bool] = False
    """Whether targets are intervals, whose ends may be infinite."""
    lengthscale: ClassVar[Lengthscale] = "classification"
    """Default prior of a network: only a strong one holds a density, and leaves nothing of classes and counts."""
    takes_logits: ClassVar[bool] = False
    """Whether outputs are logits, so that probabilities in their place are warned of."""
    watched_lengthscale: ClassVar[Lengthscale] = 1.0
    """The same where held-out rows guard against the rest. Standard normal weights leave better probabilities on most
    sets of classes."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a class with a likelihood of its own the slope by autograd, never the closed form of its parent."""
        super().__init_subclass__(**options)
        if "nll" in vars(cls) and "slope" not in vars(cls):
            cls.slope = Likelihood.slope  # type: ignore[method-assign]

    @abstractmethod
    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood of each example.

        Args:
            output: What the network returned, examples first.
            target: What was observed.

        Returns:
            Shape (N,), in nats.
        """

    def slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log likelihood of each example, shape (N,), and the derivative of their sum by the output."""
        with torch.enable_grad():
            output = output.detach().requires_grad_()
            nll = self.nll(output, target)
            (slope,) = torch.autograd.grad(nll.sum(), output)
        return nll.detach(), slope

    @abstractmethod
    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> Any:
        """Make a prediction of what drawn functions return.

        Args:
            draws: Outputs of some functions after the others, shape (S, N, ...) each.
            num_samples: Number of functions in all.
            keep_draws: Keep what each function says, where that is a choice.

        Returns:
            A `Prediction`.
        """

    def num_outputs(self, target: Tensor) -> int:
        """Numbers that a target holds, D."""
        return target.shape[-1]

    def tempered(self, temperature: Tensor | float) -> Self:
        """Give it a temperature, the number by which predictions are less sure; the same where there is no such."""
        return self

    def prior(self, lengthscale: Lengthscale | None = None) -> Lengthscale:
        """Prior of the weights: the one that is given, or that which suits this likelihood."""
        return self.lengthscale if lengthscale is None else lengthscale

    @property
    def identity(self) -> str:
        """What tells it from others, for a checkpoint."""
        return repr(self)

    def check(self, target: Tensor, name: str) -> None:
        """Refuse targets that cannot be.

        Args:
            target: The targets.
            name: What an error calls the data.

        Raises:
            ValueError: If one has no probability under any parameters.
        """
        low, high = self.support
        if len(target) and not low <= target.min().item() <= target.max().item() <= high:
            between = f"{target.min().item():g} and {target.max().item():g}"
            raise ValueError(f"the targets in `{name}` lie between {between}, which no {self.name} can give")

    support: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))
    """Least and largest target."""


@dataclass(frozen=True)
class FunctionLikelihood(Likelihood):
    """A likelihood that a function gives, to train on alone."""

    function: Callable[[Tensor, Tensor], Tensor]
    """Gives the negative log likelihood of each example, shape (N,), of outputs and targets."""
    name = "function"

    def prior(self, lengthscale: Lengthscale | None = None) -> Lengthscale:
        """The one that is given, since nothing is known of the function."""
        if lengthscale is None:
            raise ValueError(
                'a `likelihood` that is a function has no prior of its own; give lengthscale="regression" for a '
                'density whose noise is learned, lengthscale="classification" for all else'
            )
        return lengthscale

    @property
    def identity(self) -> str:
        """Name of the function."""
        return str(getattr(self.function, "__qualname__", self.function))

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Call it, and check that nobody has averaged: then the data would count too little."""
        nll = self.function(output, target)
        if nll.shape != target.shape[:1]:
            raise ValueError(
                f"`likelihood` must give one value for each example, shape {tuple(target.shape[:1])}, got "
                f"{tuple(nll.shape)}; sum over what belongs to one example, and leave the mean to training"
            )
        return nll

    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> Any:
        """A function knows no prediction."""
        raise ValueError("a likelihood that is a function makes no prediction; draw outputs with `gumdrop.sample`")


def check_temperature(temperature: Tensor | float) -> None:
    """Refuse a temperature that is not positive."""
    if not temperature > 0:
        raise ValueError(f"`temperature` must be positive, got {temperature}; 1 leaves the probabilities as they are")


def changes(temperature: Tensor | float) -> bool:
    """Tell whether a temperature changes anything; one that is learned does."""
    return isinstance(temperature, Tensor) or temperature != 1


def per_example(nll: Tensor) -> Tensor:
    """Sum over all dimensions but the first, which counts examples."""
    return nll.flatten(1).sum(1) if nll.ndim > 1 else nll


def check_same_shape(name: str, value: Tensor, target: Tensor) -> None:
    """Refuse an output and a target that would broadcast."""
    if value.shape != target.shape or value.ndim == 0:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, examples first, got {tuple(value.shape)} and "
            f"{tuple(target.shape)}; (N,) and (N, 1) differ, see Tensor.unsqueeze"
        )
