"""Notice probabilities in the place of logits: they would be made probabilities once more, none of them sure."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gumdrop.machine.notes import warn

ENDS = ("Softmax", "Sigmoid")
SHAPES = {
    *("View", "UnsafeView", "ReshapeAlias", "Alias", "Clone", "Squeeze", "Unsqueeze", "Select", "Slice", "Transpose"),
    *("Permute", "T", "Expand", "ToCopy", "Clamp", "Index"),
}
"""Operations behind which probabilities stay what they are."""
DEEPEST = 100
"""Operations that are looked through for the last parameter of a model."""
CLOSE = {torch.float16: 1e-2, torch.bfloat16: 1e-1}
"""Distance from 1 of a sum of probabilities; 1e-4 in wider types."""
MESSAGE = (
    "the outputs look like probabilities, and logits are wanted, of which a softmax or a sigmoid is taken here: "
    "pass logits, of a network without a Softmax or Sigmoid at its end"
)
_TOLD = WeakIdKeyDictionary()


def is_probability(output: Tensor) -> bool:
    """Tell by the gradient of an output, where it has one, whether it ends in a softmax or a sigmoid."""
    node: Any = output.grad_fn
    while node is not None:
        name = node.name().rpartition("Backward")[0]
        if name not in SHAPES:
            return name in ENDS
        node = node.next_functions[0][0]
    return False


def sums_to_one(logits: Tensor, dim: int) -> bool:
    """Tell whether numbers are probabilities of classes; on a GPU it waits."""
    total = logits.detach().to(torch.float32).sum(dim)
    return bool(((total - 1).abs() < CLOSE.get(logits.dtype, 1e-4)).all()) if logits.shape[dim] > 1 else False


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn, once for each model, of an output in training that ends in a softmax or a sigmoid; nothing waits."""
    if torch.compiler.is_compiling() or not is_probability(logits):
        return
    parameter = _last_parameter(logits)
    if parameter is None or parameter not in _TOLD:
        if parameter is not None:
            _TOLD[parameter] = True
        warn(MESSAGE)


def _last_parameter(output: Tensor) -> Tensor | None:
    """Find a parameter that stands for the model: the first on the way back from its output."""
    nodes: list[Any] = [output.grad_fn]
    for _ in range(DEEPEST):
        if not nodes:
            return None
        node = nodes.pop(0)
        if hasattr(node, "variable"):
            return node.variable
        nodes += [each for each, _ in node.next_functions if each is not None]
    return None
