"""Take a model with learned dropout elsewhere: one file for onnxruntime, for torch, or compiled.

What a call of the file computes is its variant:

- ``"draw"``: one function, drawn anew at each call;
- ``"moments"``: S functions, summarised as `gumdrop.predict_regression` and `gumdrop.predict_classification` do;
- ``"noise"``: the same, with the noise as an input: the same noise, the same answer, on any machine;
- ``"deterministic"``: moments that are propagated through the layers without drawing anything; for numbers, and
  networks that `gumdrop.predict_regression` takes with ``method="moments"``.

A file holds its metadata, is run before it is left in its place, and appears whole or not at all. See
`docs/deployment.md`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.export.errors import ExportError
from gumdrop.export.formats import FORMATS, Format, Runner, build, output_names, traced
from gumdrop.export.graphs import Graph, ModelGraph, Variant
from gumdrop.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, likelihood_of
from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.machine.version import VERSION

if TYPE_CHECKING:
    from gumdrop.tables.model import TableModel

FILE_FORMAT = 1
"""Version of the metadata; a reader refuses a later one."""
ROWS_TO_COMPARE = 16
MAX_RUNS = 16
RELATIVE = 1e-3
"""Rounding that two runtimes may differ by, in units of an output's typical size."""


def export_model(
    model: nn.Module,
    inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    to: Format = "onnx",
    variant: Variant = "moments",
    num_samples: int = 100,
    likelihood: str | Likelihood | None = "gaussian",
    metadata: Mapping[str, object] | None = None,
) -> Path:
    """Export a converted model.

    Args:
        model: The model; it stays as it is.
        inputs: Examples of its inputs with at least 2 rows in dimension 0, whose number is free in the file; all other
            sizes are fixed. A mapping is passed by name.
        path: File to write; it is replaced.
        to: ``"onnx"``, ``"pt2"`` (torch.export) or ``"aoti"`` (AOTInductor, which needs a C++ compiler).
        variant: What a call computes, see above.
        num_samples: Draws of a call, S; for ``"noise"`` only that of the comparison, because the noise has its own.
        likelihood: ``"gaussian"`` for means and log variances in halves of the last dimension, ``"categorical"`` for
            logits of shape (N, C, ...), ``"bernoulli"`` for one logit, or what `gumdrop.training.fit_rates` found; None
            for any other output: the draws' mean and variance are the moments then.
        metadata: More to say about the model, as plain data.

    Returns:
        The path.

    Raises:
        ExportError: If the model cannot be exported, or the file does not do what the model does.
        ValueError: If an argument is none of its choices.

    Example:
        >>> import gumdrop as gd, tempfile
        >>> model = gd.learn_dropout(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)))
        >>> file = Path(tempfile.mkdtemp()) / "model.pt2"
        >>> program = torch.export.load(export_model(model, torch.randn(8, 3), file, to="pt2"))
        >>> list(program.module()(torch.randn(5, 3)))
        ['mean', 'epistemic', 'aleatoric']
    """
    of_outputs: Any = None if likelihood is None else likelihood_of(likelihood)
    if type(of_outputs) not in (Gaussian, Categorical, Bernoulli, NoneType):
        raise ValueError(
            "`likelihood` must be one of 'gaussian', 'categorical', 'bernoulli', such a "
            f"`gumdrop.likelihoods.Likelihood`, or None, got {likelihood!r}"
        )
    _check_choice("variant", variant, get_args(Variant))
    tensors = _tensors(inputs)
    graph = ModelGraph(model, inputs, variant=variant, num_samples=num_samples, likelihood=of_outputs)
    return _write(graph, tensors, path, to, dict(metadata or {}))


def export_table(
    model: "TableModel",
    path: str | os.PathLike[str],
    *,
    to: Format = "onnx",
    variant: Variant = "moments",
    num_samples: int | None = None,
) -> Path:
    """Export what ``gumdrop fit`` trained, from columns in their own units to the target in its own.

    The file's input ``columns`` has a row for each row of the table and a column for each of the schema, in its order,
    in float64: numbers as they are, dates as days since 1970-01-01, months and weekdays from 1, times of day as hours,
    categories as their place in the schema's list; NaN for a missing cell, and -1 for a category that training did not
    see. `gumdrop.export.serving` makes such rows of plain ones. The file takes the training median and no category for
    these, where `gumdrop predict` draws them from training rows: its uncertainty does not grow with what is unknown.

    Args:
        model: The table model.
        path: File to write; it is replaced.
        to: As for `export_model`, like the next.
        variant: What a call computes; a single draw picks one of the networks, and then its masks.
        num_samples: Draws of a call, spread over the networks; that of the model if None.

    Returns:
        The path.

    Raises:
        ExportError: If the model cannot be exported, or the file does not do what the model does.
        ValueError: If an argument is none of its choices.

    Example:
        >>> from gumdrop.tables import load_table_model
        >>> export_table(load_table_model("houses"), "houses.onnx")  # doctest: +SKIP
    """
    from gumdrop.export.table_graph import TableGraph  # which needs pandas

    _check_choice("variant", variant, get_args(Variant))
    graph = TableGraph(model, variant=variant, num_samples=num_samples or model.num_samples)
    return _write(graph, [graph.examples(ROWS_TO_COMPARE)], path, to, {})


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _tensors(inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor]) -> list[Tensor]:
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    tensors = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    rows = {x.shape[0] if isinstance(x, Tensor) and x.ndim else 0 for x in tensors}
    if len(rows) != 1 or min(rows) < 2:
        raise ExportError(
            f"`inputs` must hold tensors with the same number of rows in dimension 0, at least 2, got "
            f"{sorted(rows)}; a single row would fix the number of rows in the file"
        )
    return [x[:ROWS_TO_COMPARE].detach().cpu() for x in tensors]


def _write(
    graph: Graph, inputs: list[Tensor], path: str | os.PathLike[str], to: Format, metadata: dict[str, object]
) -> Path:
    """Trace a graph, build the file, compare it with the model, and only then leave it in its place."""
    _check_choice("to", to, tuple(FORMATS))
    path = Path(path)
    if graph.variant == "noise":
        generator = torch.Generator().manual_seed(0)
        inputs = [*inputs, torch.rand(graph.num_samples, graph.num_noise, generator=generator)]
    with limited_threads(1), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        program = traced(graph, inputs)
        names = output_names(program)
        content, run = build(program, graph, to, metadata | _described(graph, names))
        check(run, graph, inputs, names)
    with replacing(path, "wb") as file:
        file.write(content)
    return path


def _described(graph: Graph, outputs: list[str]) -> dict[str, object]:
    """What a file says of itself: versions, inputs and outputs, sizes, and what its graph describes."""
    return {
        "format": FILE_FORMAT,
        "gumdrop": VERSION,
        "torch": torch.__version__,
        "variant": graph.variant,
        "inputs": graph.input_names,
        "outputs": outputs,
        "num_samples": graph.draws_of_a_call or None,
        "num_noise": graph.num_noise,
        **graph.description(),
    }


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
