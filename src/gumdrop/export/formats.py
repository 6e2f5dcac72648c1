"""File formats: from a graph to the bytes of a file with its metadata, and back to something that runs."""

import io
import json
import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx

from gumdrop.export.errors import ExportError
from gumdrop.export.graphs import Graph

Format = Literal["onnx", "pt2", "aoti"]
"""ONNX; a program of torch.export; a library that AOTInductor compiled for this kind of machine."""
FORMATS: dict[str, str] = {"onnx": ".onnx", "pt2": ".pt2", "aoti": ".aoti.pt2"}
METADATA = "gumdrop"
"""Key of the metadata, as JSON: in the properties of an ONNX model, in the extra files of a program, or in the
metadata of a compiled library."""
Runner = Callable[[Sequence[Tensor]], list[np.ndarray]]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the exporters say of themselves from the user; torch's fused attention would hide its dropout."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level, fast_path = logger.level, torch.backends.mha.get_fastpath_enabled()
    logger.setLevel(logging.ERROR)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        torch.backends.mha.set_fastpath_enabled(fast_path)


def traced(graph: Graph, inputs: Sequence[Tensor]) -> ExportedProgram:
    """Trace a graph, with any number of rows."""
    rows = [{0: Dim("draws" if name == "noise" else "rows")} for name in graph.input_names]
    if not graph.any_draws and graph.input_names[-1] == "noise":
        rows[-1] = {}
    try:
        with _quiet():
            if graph.variant == "deterministic":  # its slopes are gradients, which torch.export alone does not trace
                made = make_fx(graph, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*inputs)
                program = torch.export.export(made, tuple(inputs), dynamic_shapes=tuple(rows), strict=False)
            else:
                program = torch.export.export(graph, tuple(inputs), dynamic_shapes=(tuple(rows),), strict=False)
    except ExportError:
        raise
    except Exception as error:  # torch.export raises whatever the model and its own tools raise
        raise ExportError(f"the model cannot be traced by torch.export: {_first_line(error)}") from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def build(program: ExportedProgram, graph: Graph, to: Format, metadata: Mapping[str, object]) -> tuple[bytes, Runner]:
    """Turn a program into a file."""
    text = json.dumps(metadata)
    with _quiet():
        if to == "onnx":
            return _onnx(program, graph, text)
        if to == "pt2":
            return _program(program, text)
        return _compiled(program, text)


def _onnx(program: ExportedProgram, graph: Graph, text: str) -> tuple[bytes, Runner]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  (the exporter of torch needs it)
    except ModuleNotFoundError as error:
        raise ExportError(f"ONNX needs {error.name}: pip install 'gumdrop[export]'") from error
    try:
        made = torch.onnx.export(program, dynamo=True, verbose=False)
        assert made is not None
    except Exception as error:
        raise ExportError(_unknown_operator(error)) from error
    _rename(made.model.graph, graph.input_names, output_names(program))
    made.model.metadata_props[METADATA] = text
    try:
        content = made.model_proto.SerializeToString()
    except ValueError as error:
        raise ExportError("the model is larger than the 2 GB of an ONNX file; export it with `to='pt2'`") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(inputs: Sequence[Tensor]) -> list[np.ndarray]:
        feed = {name: x.numpy() for name, x in zip(graph.input_names, inputs, strict=True)}
        return [np.asarray(value) for value in session.run(None, feed)]

    return content, run


def _unknown_operator(error: BaseException) -> str:
    """Name the operator that the exporter to ONNX does not know, which stands in one of the causes."""
    cause: BaseException | None = error
    while cause is not None:
        if match := re.search(r"OpOverload\(op='([\w.]+)'", str(cause)):
            return (
                f"ONNX has no form for the operator {match[1]} of the model; replace it in the model by others, or "
                "export with `to='pt2'`, which takes every operator of torch"
            )
        cause = cause.__cause__
    return f"the model cannot be written as ONNX: {_first_line(Exception(error))}; `to='pt2'` may take it"


def output_names(program: ExportedProgram) -> list[str]:
    """Names of the outputs of a program that returns a dict, in order."""
    spec = program.call_spec.out_spec
    assert spec is not None
    return list(spec.context)


def _rename(onnx_graph: Any, inputs: list[str], outputs: list[str]) -> None:
    """Name inputs and outputs, move other values out of the way, and forget where in the source a node came from."""
    taken = {*inputs, *outputs}
    for node in onnx_graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
            if value.name in taken:
                value.name = f"{value.name}_inside"
    for values, names in ((onnx_graph.inputs, inputs), (onnx_graph.outputs, outputs)):
        for value, name in zip(values, names, strict=True):
            value.metadata_props.clear()
            value.name = name


def _program(program: ExportedProgram, text: str) -> tuple[bytes, Runner]:
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={f"{METADATA}.json": text})
    content = file.getvalue()
    module = torch.export.load(io.BytesIO(content)).module()
    return content, _torch_runner(module)


def _compiled(program: ExportedProgram, text: str) -> tuple[bytes, Runner]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt2")
        try:
            torch._inductor.aoti_compile_and_package(
                program, package_path=path, inductor_configs={"aot_inductor.metadata": {METADATA: text}}
            )
        except Exception as error:
            raise ExportError(
                f"AOTInductor could not compile the model: {_first_line(error)}; it needs a C++ compiler (g++ or "
                "clang), and `to='pt2'` does not"
            ) from error
        return Path(path).read_bytes(), _torch_runner(torch._inductor.aoti_load_package(path))


def _torch_runner(module: nn.Module | Callable[..., Any]) -> Runner:
    def run(inputs: Sequence[Tensor]) -> list[np.ndarray]:
        with torch.no_grad():
            return [value.numpy() for value in module(*inputs).values()]

    return run
