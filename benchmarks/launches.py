"""Operations of a training step, each of which a GPU launches at least once: learned dropout, fixed dropout and none.

Counted on a processor, below the gradient: what only looks at a tensor, or allocates one, is left out. Networks are
those of ``make benchmark-gpu`` with few units, since the number of operations does not depend on them. Run with
``make benchmark-launches``; writes ``docs/results/launches.json``.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gumdrop as gd

import steps
from timing import write_results

SEED = 0
NETWORKS: dict[str, tuple[Callable[[float], nn.Module], tuple[int, ...]]] = {
    "MLP, 4 layers": (partial(steps.mlp, width=16), (8, 16)),
    "ResNet-18": (partial(steps.resnet, width=4), (4, 3, 16, 16)),
    "LSTM, 2 layers": (steps.Recurrent, (4, 3, 256)),
    "transformer encoder, 6 layers": (partial(steps.Encoder, width=64), (4, 5, 64)),
}
ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


class _Count(TorchDispatchMode):
    """Counts operations that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation, and run it."""
        results = func._schema.returns
        is_view = bool(results) and all(r.alias_info is not None and not r.alias_info.is_write for r in results)
        self.count += not is_view and func.overloadpacket.__name__ not in ALLOCATIONS
        return func(*args, **(kwargs or {}))


def launches(step: Callable[[], object]) -> int:
    """Count the operations of a step that is not the first."""
    step()
    with _Count() as counted:
        step()
    return counted.count


def main() -> None:
    """Count and write."""
    rows: list[dict[str, Any]] = []
    for name, (make, shape) in NETWORKS.items():
        torch.manual_seed(SEED)
        plain, fixed = make(0.0), make(steps.P)
        learned = gd.learn_dropout(copy.deepcopy(plain), p=steps.P)
        for autocast in (None, torch.bfloat16):
            batch = steps.batch_of(shape)
            step = partial(steps.step_of, batch=batch, compiled=False, autocast=autocast)
            row: dict[str, Any] = {
                "network": name,
                "dtype": "float32" if autocast is None else "bfloat16",
                "sites": len(gd.dropout_rates(learned)),
                "none": launches(step(plain, kl_of=None)),
                "fixed": launches(step(fixed, kl_of=None)),
                "masks": launches(step(learned, kl_of=None)),
                "learned": launches(step(learned, kl_of=steps.gumdrop_kl)),
            }
            rows.append(row | {"ratio": round(row["learned"] / row["fixed"], 3)})
            print(rows[-1], flush=True)
    write_results("launches", command="make benchmark-launches", seed=SEED, results=rows)


if __name__ == "__main__":
    main()
