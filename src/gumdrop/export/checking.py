"""Run what was exported, twice, and compare it with the library, before anybody else does."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gumdrop.export.errors import ExportError
from gumdrop.export.formats import Runner
from gumdrop.export.graphs import Graph

MAX_RUNS = 16
RELATIVE = 1e-3
"""Rounding that two runtimes may differ by, in units of an output's typical size."""


@torch.no_grad()
def check(run: Runner, graph: Graph, inputs: Sequence[Tensor], names: Sequence[str]) -> None:
    """Refuse a file that does not do what the model does: the same for the same noise, else in the mean over runs."""
    first, second = _run(run, inputs), _run(run, inputs)
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    if graph.is_random and same:
        raise ExportError(
            "two runs of the exported file gave the same outputs, so its masks are frozen; all rates may be 0 or 1, or "
            "the model draws its noise in a form that the exporter takes for a constant"
        )
    if not graph.is_random and not same:
        raise ExportError("two runs of the exported file with the same inputs differ; the model has noise of its own")
    _check_one_row(run, graph, inputs, first)
    if graph.is_random:
        _compare_in_mean(run, graph, inputs, names)
    else:
        for name, mine, theirs in zip(names, graph(*inputs).values(), first, strict=True):
            _compare(name, mine.numpy(), theirs)


def _run(run: Runner, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    try:
        return run(inputs)
    except Exception as error:  # each runtime has errors of its own
        raise ExportError(f"the exported file does not run: {str(error).splitlines()[0]}") from error


def _check_one_row(run: Runner, graph: Graph, inputs: Sequence[Tensor], many: Sequence[np.ndarray]) -> None:
    one = [x if name == "noise" else x[:1] for name, x in zip(graph.input_names, inputs, strict=True)]
    for single, all_rows in zip(_run(run, one), many, strict=True):
        if single.shape[0] != 1 or single.shape[1:] != all_rows.shape[1:]:
            raise ExportError(
                f"the exported file gives shape {single.shape} for one row and {all_rows.shape} for "
                f"{len(inputs[0])}; the model must count examples in dimension 0"
            )


def _compare_in_mean(run: Runner, graph: Graph, inputs: Sequence[Tensor], names: Sequence[str]) -> None:
    count = max(4, min(MAX_RUNS, 2000 // graph.num_samples))
    if graph.num_samples == 1:
        count = 10 * MAX_RUNS
    theirs = [_run(run, inputs) for _ in range(count)]
    ours = [graph.reference(inputs, seed) for seed in range(count)]
    for i, name in enumerate(names):
        a = np.stack([each[name].numpy() for each in ours]).astype(np.float64)
        b = np.stack([each[i] for each in theirs]).astype(np.float64)
        chance = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / count)
        _compare(name, a.mean(0), b.mean(0), 7 * (chance + chance.mean()))  # standard errors


def _compare(name: str, ours: np.ndarray, theirs: np.ndarray, chance: np.ndarray | float = 0.0) -> None:
    difference = np.abs(ours - theirs) - chance
    allowed = RELATIVE * np.abs(ours).mean() + np.finfo(np.float32).tiny
    if ours.shape != theirs.shape or not (difference <= allowed).all():
        worst = f"by {np.max(difference):.3g} beyond chance" if ours.shape == theirs.shape else "in shape"
        raise ExportError(
            f"the exported file's `{name}` differs from that of the model {worst}, so no file was left; a model whose "
            "rows influence each other, or that has dropout of its own making, cannot be exported"
        )
