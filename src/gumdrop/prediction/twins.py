"""A twin of a model: modules of its own around the model's parameters, so that a prediction changes nothing in it.

A prediction switches modules to eval and gives sites their masks. Done in the model itself, two predictions at once,
or one beside a training step, would see each other's masks and flags. A twin costs some microseconds for each module
and no memory for weights, and what a forward keeps in its modules goes with it.
"""

import functools
from collections.abc import Mapping
from types import MethodType
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.nn.parameter import is_lazy

DISTANCE = "feature_distance"
"""Attribute of a model that holds how far out rows are, see `gumdrop.prediction.distance`."""
STANDARD = frozenset(vars(nn.Module()))
"""Attributes of every module."""
PLAIN = frozenset({type(None), bool, int, float, str, Tensor, nn.Parameter})
"""What refers to no module."""


def twin_of(model: nn.Module) -> nn.Module:
    """Return modules in eval that share parameters, buffers and everything else with those of a model.

    References from one module to another, also in bound methods, partial functions and collections, lead to the twins.
    A compiled model has the twin of the module that was compiled.

    Raises:
        ValueError: If a layer has no size yet, or a TorchScript module is in training mode.
    """
    model = uncompiled(model)
    if any(map(is_lazy, model.parameters())):
        raise ValueError("`model` has layers without a size yet, such as LazyLinear: run it once on some inputs first")
    modules = list(model.modules())
    twins: dict[int, Any] = {id(m): object.__new__(type(m)) for m in modules if not _is_script(m)}
    for module in modules:
        if id(module) in twins:
            _fill(twins[id(module)], module, twins)
    twin: nn.Module = twins.get(id(model), model)
    return twin


def uncompiled(model: nn.Module) -> nn.Module:
    """Give the module that was compiled, or the model itself."""
    while "_orig_mod" in model._modules:
        model = model.get_submodule("_orig_mod")
    return model


def _is_script(module: nn.Module) -> bool:
    if not isinstance(module, ScriptModule):
        return False
    if module.training:
        raise ValueError("`model` has a TorchScript module in training mode; call model.eval() first")
    return True


def _fill(twin: nn.Module, module: nn.Module, twins: Mapping[int, nn.Module]) -> None:
    own = vars(twin)
    own.update(vars(module))
    own["training"] = False
    own["_compiled_call_impl"] = None
    own["_buffers"] = module._buffers.copy()  # not those of parameters, which FSDP replaces for the time of a call
    own["_modules"] = {name: twins.get(id(child), child) for name, child in module._modules.items()}
    if isinstance(module, nn.TransformerEncoderLayer):
        own["activation_relu_or_gelu"] = 0  # rules out the fused path, which skips dropout in eval
    for name in ("_forward_pre_hooks", "_forward_hooks"):
        hooks = ((key, _twinned(hook, twins)) for key, hook in own[name].items())
        own[name] = type(own[name])(hooks)
    for name in own.keys() - STANDARD:
        if type(own[name]) not in PLAIN:
            own[name] = _twinned(own[name], twins)


def _twinned(value: Any, twins: Mapping[int, nn.Module]) -> Any:
    """Lead a reference to a module of the model to its twin."""
    if isinstance(value, nn.Module):
        return twins.get(id(value), value)
    if type(value) is MethodType:
        return MethodType(value.__func__, _twinned(value.__self__, twins))
    if type(value) is functools.partial:
        arguments = [_twinned(each, twins) for each in value.args]
        keywords = {name: _twinned(each, twins) for name, each in value.keywords.items()}
        return functools.partial(_twinned(value.func, twins), *arguments, **keywords)
    if type(value) in (list, tuple) and value and isinstance(value[0], nn.Module):
        return type(value)(_twinned(each, twins) for each in value)
    if type(value) is dict and value and isinstance(next(iter(value.values())), nn.Module):
        return {key: _twinned(each, twins) for key, each in value.items()}
    return value
