"""Which output is explained, and how strongly the model holds it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Target = int | Sequence[int] | Tensor | None
Score = Callable[[Tensor, Tensor | None], Tensor]


def log_odds(output: Tensor, target: Tensor | None) -> Tensor:
    r"""Return log-odds of a class in nats, :math:`\log\frac{P(c)}{1-P(c)} = z_c - \log\sum_{k \ne c} e^{z_k}`, (N,).

    Args:
        output: Logits, shape (N, C), or one logit for each row, shape (N,) or (N, 1).
        target: Class of each row, shape (N,); None for one logit, whose log-odds is itself.

    Example:
        >>> log_odds(torch.tensor([[2.0, 1.0, 1.0]]), torch.tensor([0]))
        tensor([0.3069])
    """
    if target is None:
        return output.reshape(len(output))
    chosen = output.gather(1, target[:, None])[:, 0]
    return chosen - output.scatter(1, target[:, None], -torch.inf).logsumexp(dim=1)


def call(
    forward_func: Callable[..., Any], inputs: Tensor, extra: tuple[Any, ...] = (), rows: Tensor | None = None
) -> Tensor:
    """Call a model as `unchecked_call` does, and refuse an output that is not finite."""
    output = unchecked_call(forward_func, inputs, extra, rows)
    check_finite(output.isfinite())
    return output


def unchecked_call(
    forward_func: Callable[..., Any], inputs: Tensor, extra: tuple[Any, ...] = (), rows: Tensor | None = None
) -> Tensor:
    """Call a model on inputs and the rows of what is extra, and check the shape; no device is waited for."""
    chosen = [rows_of(value, rows) for value in extra]
    output = forward_func(inputs, *chosen)
    if not isinstance(output, Tensor):
        raise TypeError(
            f"`forward_func` returned a {type(output).__name__}; wrap it so that it returns the tensor of logits, "
            "as in lambda x: model(x).logits"
        )
    if output.ndim not in (1, 2) or len(output) != len(inputs):
        raise ValueError(
            f"`forward_func` must return one row of logits for each input, shape ({len(inputs)}, C) or "
            f"({len(inputs)},), got {tuple(output.shape)}; wrap it so that it picks the output to explain"
        )
    return output


def check_finite(are_finite: Tensor) -> None:
    """Refuse a model whose output is not finite; the device is waited for."""
    if not are_finite.all():
        raise ValueError("`forward_func` returned NaN or infinity; look at the model, or at the range of the inputs")


def rows_of(value: Any, rows: Tensor | None) -> Any:
    """The rows of a tensor that has any, all if ``rows`` is None; anything else as it is."""
    if rows is None or not isinstance(value, Tensor) or value.ndim == 0:
        return value
    return value[rows.to(value.device)]


def score_of(score: Score, output: Tensor, target: Tensor | None) -> Tensor:
    """Score the rows of an output, and refuse a score that is not one number for each."""
    scores = score(output, target)
    if not isinstance(scores, Tensor) or scores.shape != (len(output),):
        raise ValueError(f"`score` must return one number for each row, a tensor of shape ({len(output)},)")
    return scores


def find_target(output: Tensor, target: Target) -> Tensor | None:
    """Turn a target into one class for each row, shape (N,); None where the model has one output only."""
    count = len(output)
    num_classes = output.shape[1] if output.ndim == 2 else 1
    if target is None:
        return output.argmax(dim=1) if num_classes > 1 else None
    classes = torch.as_tensor(target, device=output.device)
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise TypeError(f"`target` must be whole numbers, got {classes.dtype}; convert it with target.long()")
    classes = classes.long().reshape(-1)
    if len(classes) not in (1, count):
        raise ValueError(f"`target` must be one class or {count}, one for each input, got {len(classes)}")
    low, high = int(classes.min()), int(classes.max())
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"`target` must be from 0 to {num_classes - 1}, the outputs of the model, got "
            f"{low if low < 0 else high}; None takes the class that the model predicts"
        )
    return classes.expand(count) if num_classes > 1 else None
