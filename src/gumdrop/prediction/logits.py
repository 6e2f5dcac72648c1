"""Look once at what a model of classes returns in a prediction: probabilities would be made probabilities again."""

import contextlib
import weakref
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from gumdrop.functional.noise import is_traced
from gumdrop.likelihoods.logits import MESSAGE, is_probability, sums_to_one
from gumdrop.machine.notes import warn
from gumdrop.prediction.draws import Output
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.twins import twin_of

_LOOKED: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def watched(draws: Iterable[Tensor], model: nn.Module, x: Arguments, output: Output) -> Iterator[Tensor]:
    """Pass on what functions return, shape (S, N, ...) each, and look at the first of each model."""
    for logits in draws:
        if model not in _LOOKED and not (logits.is_meta or is_traced()):
            _LOOKED.add(model)
            if _are_probabilities(logits, model, x, output):
                warn(MESSAGE)
        yield logits


def _are_probabilities(logits: Tensor, model: nn.Module, x: Arguments, output: Output) -> bool:
    """Tell by the numbers, and where these leave it open by the gradient of two rows, which costs a pass."""
    low, high = logits.aminmax()
    if not (low >= 0 and high <= 1):
        return False
    if logits.ndim > 2 and sums_to_one(logits, 2):
        return True
    # The model may do what cannot be done again, or has no gradient: then nothing is known.
    with contextlib.suppress(Exception), torch.inference_mode(False), torch.enable_grad():
        rows = {key: _with_gradient(value[:2]) for key, value in x.rows.items()}
        result = Arguments(rows, x.shared).call(twin_of(model))
        return is_probability(result if output is None else output(result))
    return False


def _with_gradient(value: Tensor) -> Tensor:
    return value.clone().requires_grad_() if value.is_floating_point() else value
