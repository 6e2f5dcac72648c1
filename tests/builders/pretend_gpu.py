"""A pretend GPU: a device whose numbers are on the CPU, and that refuses what a GPU refuses.

It finds tensors of two devices mixed where there is no GPU. Its tensors are plain tensors of the device that torch
leaves free for others, over memory of the CPU. Torch itself refuses most mixtures of devices; the other operations are
checked here, and done by the CPU.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import backend_registration

NAME = "pretend"
IN_DLPACK = {"cpu": 1, NAME: 12}
"""Kinds of devices by the numbers that the standard gives them."""

IS_POSSIBLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
"""Whether this torch lets Python give it a device."""

AT_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
aten = torch.ops.aten
VIEWS = (
    aten.as_strided.default,
    aten.view.default,
    aten.view.dtype,
    aten.unfold.default,
    aten._reshape_alias.default,
    aten.set_.source_Storage,
    aten.set_.source_Storage_storage_offset,
    aten.set_.source_Tensor,
)
INDEXED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")


class _Module:
    """What torch asks of `torch.pretend`; random numbers are those of the CPU."""

    device = nullcontext

    def device_count(self) -> int:
        return 1

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def get_rng_state(self, device: object) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: object) -> None:
        torch.set_rng_state(state)

    def manual_seed_all(self, seed: int) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@contextmanager
def pretend_gpu() -> Iterator[torch.device]:
    """Give the pretend GPU."""
    _register()
    with (
        torch.autograd.set_multithreading_enabled(False),  # torch has threads for devices that it knew at its first fit
        mock.patch.object(torch, "inference_mode", return_value=nullcontext()),  # which sets that back
        mock.patch.object(torch.UntypedStorage, "clone", lambda storage: _bytes(storage).clone().untyped_storage()),
        mock.patch.object(torch.UntypedStorage, "to", _sent),
        mock.patch.object(torch.UntypedStorage, "cpu", functools.partialmethod(_sent, device="cpu")),
    ):
        yield torch.device(NAME, 0)


@functools.cache
def _register() -> list[torch.library.Library]:
    """Give torch the device, which lives as long as the process."""
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _Module())
    torch._C._acc.register_python_privateuseone_hook(backend_registration._DummyPrivateUse1Hook())
    torch._C._acc.register_python_privateuseone_device_guard(backend_registration._DummyDeviceGuard())
    every, some = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(_on_cpu, "PrivateUse1")
    some.impl("_copy_from", _copy_from, "PrivateUse1")
    some.impl("resize_", _resize, "PrivateUse1")
    some.impl("convolution_overrideable", functools.partial(_on_cpu, aten.convolution.default), "PrivateUse1")
    some.impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
    for view in VIEWS:
        some.impl(view, functools.partial(view.redispatch, AT_CPU), "PrivateUse1")
    return [every, some]


def _on_cpu(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Do an operation on the CPU, over the same memory."""
    schema = _schema(func)
    values = dict(zip(schema.names, args, strict=False)) | kwargs
    _check(schema, values)
    device = values.get("device")
    if device is not None:
        values["device"] = torch.device("cpu")
    outputs = {name: values[name] for name in schema.outputs}
    values |= {name: torch.empty(0, dtype=output.dtype) for name, output in outputs.items()}  # may have another size
    twins: dict[int, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        result = _relabelled(tensor, "cpu")
        twins[id(result)] = tensor
        return result

    def back(tensor: Tensor) -> Tensor:
        return twins[id(tensor)] if id(tensor) in twins else _relabelled(tensor, NAME)

    values = {name: _mapped(twin, value) for name, value in values.items()}
    for name in schema.tensors:
        if isinstance(values[name], int | float):  # a number that stood for a tensor, which torch has unpacked
            values[name] = torch.tensor(values[name], dtype=torch.float64 if isinstance(values[name], float) else None)
    result = func(**values)
    for name, output in outputs.items():
        twins[id(values[name])] = _resize(output, values[name].shape).copy_(values[name])
    return result if device is not None and device.type == "cpu" else _mapped(back, result)


def _mapped(call: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply a function to a tensor, or to those of a list."""
    if isinstance(value, Tensor):
        return call(value)
    if isinstance(value, list | tuple):
        return type(value)([_mapped(call, each) for each in value])
    return value


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _relabelled(target, "cpu").copy_(_relabelled(source, "cpu"))
    return target


def _resize(tensor: Tensor, size: tuple[int, ...], *, memory_format: torch.memory_format | None = None) -> Tensor:
    return tensor if tensor.shape == tuple(size) else tensor.set_(tensor.new_empty(size))


def _convolution_backward(gradient: Tensor, x: Tensor, weight: Tensor, *args: Any) -> Any:
    return _on_cpu(aten.convolution_backward.default, gradient, x, weight, [weight.shape[0]], *args)


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _sent(storage: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    return _bytes(storage).to(device).untyped_storage()


class _Schema(NamedTuple):
    """What is asked of the arguments of an operation."""

    title: str
    names: list[str]
    tensors: list[str]
    written: set[str]
    outputs: list[str]


@functools.cache
def _schema(func: OpOverload) -> _Schema:
    arguments = func._schema.arguments
    tensors = [each.name for each in arguments if str(each.type) == "Tensor"]
    written = {each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write}
    outputs = [each.name for each in arguments if each.is_out]
    return _Schema(func._schema.name, [each.name for each in arguments], tensors, written, outputs)


def _check(schema: _Schema, values: dict[str, Any]) -> None:
    """Refuse tensors and generators of the CPU, but for a number and for rows that are chosen."""
    for name, value in values.items():
        for leaf in value if isinstance(value, list | tuple) else (value,):
            if not (isinstance(leaf, Tensor) or (name == "generator" and leaf)) or leaf.device.type != "cpu":
                continue
            is_number = name != "generator" and leaf.ndim == 0 and name not in schema.written
            is_chosen = name == "indices" and schema.title in INDEXED and values["self"].device.type == NAME
            if not is_number and not is_chosen:
                title = schema.title
                raise RuntimeError(f"Expected all tensors to be on the same device: `{name}` of {title} is on the CPU")


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _relabelled(tensor: Tensor, kind: str) -> Tensor:
    """Return the same memory as of another device, which is a number behind the pointer of its DLPack."""
    if tensor.device.type == kind:
        return tensor
    capsule = torch._C._to_dlpack(tensor)
    ctypes.c_int32.from_address(_pointer_of(capsule, b"dltensor") + 8).value = IN_DLPACK[kind]
    return torch._C._from_dlpack(capsule)
