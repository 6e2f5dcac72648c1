"""Bytes that a forward pass keeps for the backward pass: learned dropout against fixed dropout.

A tensor counts once, whoever keeps it; parameters and the batch do not count. No time is measured.
Run with ``make benchmark-training``; writes ``docs/results/speed_kept.json``.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers import ConcreteDropout

import sites
import steps
from timing import write_results


def kept_bytes(function: Callable[[], Tensor], free: Iterable[Tensor]) -> int:
    """Bytes in all storages that the graph of a result holds, without those that were there before."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function()
    assert result.requires_grad  # and alive, so that no address is used twice
    for tensor in free:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(kept.values())


def of_site(kind: str, dtype: torch.dtype) -> dict[str, Any]:
    """Bytes of one site with the layer behind it, which keeps its own input, beyond those without dropout."""
    shape = sites.SHAPES[kind]
    units = shape[-3] if kind == "conv" else shape[-1]
    layer = (nn.Conv2d(units, 1, 1) if kind == "conv" else nn.Linear(units, 1)).to(dtype)
    site = ConcreteDropout(units, feature_dim=-3 if kind == "conv" else -1)
    x = torch.randn(shape).to(dtype).requires_grad_()
    free = [x, *layer.parameters(), site.scaled_logit]
    ways: dict[str, Callable[[], Tensor]] = {
        "nn.Dropout": lambda: layer(nn.Dropout(0.1)(x)),
        "nn.Dropout2d": lambda: layer(nn.Dropout2d(0.1)(x)),
        "gumdrop": lambda: layer(site(x)),
        "formula of the paper": lambda: layer(sites.PaperDropout()(x)),
    }
    if kind != "conv":
        del ways["nn.Dropout2d"]
    output = x.numel() * x.element_size()
    return {
        "site": kind,
        "dtype": str(dtype).removeprefix("torch."),
        **{name: kept_bytes(way, free) - output for name, way in ways.items()},
    }


def of_network(name: str) -> dict[str, Any]:
    """Bytes of a whole network and its loss."""
    row: dict[str, Any] = {"network": name}
    x, y = steps.batch_of(steps.NETWORKS[name][1])
    for rival, (model, kl_of) in steps.contestants(name).items():
        model.train()

        def loss_of(model: nn.Module = model, kl_of: Callable[[nn.Module], Tensor] | None = kl_of) -> Tensor:
            nll = nn.functional.cross_entropy(model(x), y)
            return nll if kl_of is None else nll + kl_of(model)

        row[rival] = kept_bytes(loss_of, [x, y, *model.parameters(), *model.buffers()])
    return row


def main() -> None:
    """Count all cases and write them."""
    torch.manual_seed(steps.SEED)
    rows = [of_site(kind, dtype) for kind in sites.SHAPES for dtype in (torch.float32, torch.bfloat16)]
    rows += [of_network(name) for name in steps.NETWORKS]
    for row in rows:
        print(row)
    write_results("speed_kept", command="make benchmark-training", seed=steps.SEED, results=rows, unit="bytes")


if __name__ == "__main__":
    main()
