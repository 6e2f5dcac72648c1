"""A network by its name: a file of torch.export, or what a module of Python has or makes."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.graph import CodeGen

aten = torch.ops.aten
CONVOLUTIONS: Mapping[object, type[nn.Module]] = {
    **{aten.conv1d.default: nn.Conv1d, aten.conv2d.default: nn.Conv2d, aten.conv3d.default: nn.Conv3d},
    **{aten.conv1d.padding: nn.Conv1d, aten.conv2d.padding: nn.Conv2d, aten.conv3d.padding: nn.Conv3d},
}
CHANNELS: Mapping[int, type[nn.Module]] = {3: nn.Dropout1d, 4: nn.Dropout2d, 5: nn.Dropout3d}
"""Dropout of channels by the dimensions of what it drops from."""


def load_network(name: str) -> nn.Module:
    """Load a network in eval: a file of torch.export (.pt2), or ``module:thing`` that is a network or makes one."""
    # Both run code of their authors. PyTorch unpickles examples of a .pt2 file, and evaluates its expressions of sizes
    # as Python: refusing pickles alone would make no file safe that is not trusted.
    return modules_of(load_program(Path(name))) if name.endswith(".pt2") else import_network(name)


def import_network(name: str) -> nn.Module:
    """Import ``module:thing``, see `load_network`."""
    module, _, thing = name.partition(":")
    if not thing:
        raise ValueError(
            f"{name!r} is neither a file that ends in .pt2, as torch.export.save writes it, nor of the form "
            "module:thing, as in my_models:make_classifier; a file of weights alone holds no network"
        )
    try:
        maker = getattr(importlib.import_module(module), thing)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported ({error}); its folder must be on PYTHONPATH") from error
    model = maker if isinstance(maker, nn.Module) else maker()
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name!r} must be or make a torch.nn.Module, got a {type(model).__name__}")
    return model.eval()


def load_program(path: Path) -> ExportedProgram:
    """Read what torch.export.save wrote of a network that takes any number of rows, see `load_network`."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; name a file that torch.export.save wrote")
    try:
        program = torch.export.load(path)
    except Exception as error:  # whatever torch raises for a file that it did not write
        raise ValueError(f"{path} is no program that torch.export.save wrote") from error
    for sizes in input_sizes(program):
        if not sizes or isinstance(sizes[0], int):
            raise ValueError(
                f"{path} must take any number of rows, got an input of shape {tuple(sizes)}; export it with "
                "dynamic_shapes=({0: torch.export.Dim('n')},)"
            )
    return program


def input_sizes(program: ExportedProgram) -> list[torch.Size]:
    """Give the shape of each input; a size that is free is no integer."""
    names = program.graph_signature.user_inputs
    return [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def modules_of(program: ExportedProgram) -> GraphModule:
    """Make modules again of dense and convolutional layers and dropout in a program, whose functions take no site."""
    model = program.module(check_guards=False)  # which compare a call with the example of the export
    nodes: list[Any] = list(model.graph.nodes)
    for node in nodes:
        named = (_dropout(model, node) or _layer(model, node)) if node.op == "call_function" else None
        if named is None:
            continue
        name, module = named
        model.add_submodule(name, module)
        with model.graph.inserting_before(node):
            node.replace_all_uses_with(model.graph.call_module(name, node.args[:1]))
        model.graph.erase_node(node)
    end: Any = model.graph.output_node()
    if len(end.args[0]) != 1:
        raise ValueError(f"the program must return one tensor, got {len(end.args[0])} outputs")
    end.args = tuple(end.args[0])
    model.graph.set_codegen(CodeGen())  # arguments in, a tensor out, as they are
    model.graph.eliminate_dead_code()
    return GraphModule(model, model.graph).eval()  # the module of a program refuses eval


def _dropout(model: GraphModule, node: Any) -> tuple[str, nn.Module] | None:
    """Give the name and the module of a call, None if it drops nothing."""
    if node.target is aten.dropout.default:
        kind: type[nn.Module] = nn.Dropout
    elif node.target is aten.feature_dropout.default:
        kind = CHANNELS[node.meta["val"].ndim]
    else:
        return None
    path = [name for name, _ in node.meta.get("nn_module_stack", {}).values()][-1:]
    taken = dict(model.named_modules())
    return next(name for name in (*path, node.name) if name not in taken), kind(node.args[1]).eval()


def _layer(model: GraphModule, node: Any) -> tuple[str, nn.Module] | None:
    """Give the name and the module of a call, None if it is no layer with parameters of its own."""
    if node.target is not aten.linear.default and node.target not in CONVOLUTIONS:
        return None
    given: list[Any] = [*node.args[1:], None]
    weight, bias = given[:2]
    name, _, kind = weight.target.rpartition(".") if weight.op == "get_attr" else ("", "", "")
    if kind != "weight" or {own for own, _ in model.get_submodule(name).named_parameters()} - {"weight", "bias"}:
        return None
    parameter = model.get_parameter(weight.target)
    settings = dict(zip(("stride", "padding", "dilation", "groups"), given[2:-1], strict=False))
    if node.target is aten.linear.default:
        module: Any = nn.Linear(parameter.shape[1], parameter.shape[0], device="meta")
    else:
        inputs = parameter.shape[1] * settings.get("groups", 1)
        module = CONVOLUTIONS[node.target](inputs, *parameter.shape[:1], parameter.shape[2:], **settings, device="meta")
    module.weight, module.bias = parameter, None if bias is None else model.get_parameter(bias.target)
    return name, module.eval()
