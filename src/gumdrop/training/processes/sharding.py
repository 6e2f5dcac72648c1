"""Gradients averaged over processes, parameters spread over them, and tensors gathered whole."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from gumdrop.layers import ConcreteDropout
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.training.processes.group import process_group

_WHOLE = (ConcreteDropout, HomoscedasticNoise)
"""Modules with few parameters, which every process keeps whole."""
_AVERAGED = WeakIdKeyDictionary()
"""Parameters whose gradient is averaged already."""


def data_parallel(model: nn.Module) -> nn.Module:
    """Let each process have a copy of a model, with the parameters of the first, and average their gradients.

    Gradients of half precision are summed in float32: that of a rate is a small difference of large terms. A loop of
    one's own seeds torch with the number of the process after this, or all processes draw the same masks.

    Args:
        model: A converted model, on its device.

    Returns:
        The model in a `torch.nn.parallel.DistributedDataParallel`; call this one, and keep the other. The model
        itself where this process is alone.
    """
    if process_group().world_size == 1:
        return model
    device = next(model.parameters()).device
    wrapped = nn.parallel.DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device])
    wrapped.register_comm_hook(None, _mean_in_float32)
    return wrapped


def _mean_in_float32(state: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    gradient = bucket.buffer()
    wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).div_(dist.get_world_size())
    future = dist.all_reduce(wide, async_op=True).get_future()

    def narrow(done: torch.futures.Future[list[Tensor]]) -> Tensor:
        return gradient.copy_(done.value()[0])

    return future.then(narrow)


def shard(model: nn.Module, **options: Any) -> nn.Module:
    """Spread the weights of a model over the processes (FSDP2), and leave the rates whole on each of them.

    The gradients of the rates are averaged in float32, whatever ``mp_policy`` says of those of the weights.
    To shard block by block, call it on the blocks first and on the whole model last.

    Args:
        model: A converted model, or a block of one.
        options: For `torch.distributed.fsdp.fully_shard`.

    Returns:
        The same model; as it was, where this process is alone.

    References:
        Zhao et al. 2023, "PyTorch FSDP" (arXiv:2304.11277).
    """
    group = process_group()
    if group.world_size == 1:
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    whole = {p for module in model.modules() if isinstance(module, _WHOLE) for p in module.parameters()}
    for parameter in whole:
        if parameter not in _AVERAGED:  # a block may have been sharded by itself before
            parameter.register_post_accumulate_grad_hook(_average_gradient)
            _AVERAGED[parameter] = True
    for tensor in [*model.parameters(), *model.buffers()]:
        if not _is_piece(tensor):
            dist.broadcast(tensor.data, src=0)
    device = next(model.parameters()).device.type
    options.setdefault("mesh", init_device_mesh(device, (group.world_size,)))
    fully_shard(model, ignored_params=whole, **options)
    return model


def _average_gradient(parameter: Tensor) -> None:
    # What an earlier backward left is the same everywhere, so that averaging it again changes nothing.
    assert parameter.grad is not None
    wide = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32)).div_(dist.get_world_size())
    dist.all_reduce(wide)
    parameter.grad.copy_(wide)


def _is_piece(value: Any) -> bool:
    return hasattr(value, "full_tensor")


def is_sharded(model: nn.Module) -> bool:
    """Whether each process holds only a part of a model's weights."""
    return any(map(_is_piece, model.parameters()))


def gathered(state: Any) -> Any:
    """Put the tensors in dicts and lists together, from the parts that the processes hold; all of them must call it."""
    if isinstance(state, dict):
        return {key: gathered(value) for key, value in state.items()}
    if isinstance(state, list):
        return [gathered(value) for value in state]
    return state.full_tensor() if _is_piece(state) else state


def placed_as(parameter: Tensor, value: Any) -> Any:
    """Take this process's part of a whole tensor, as it has one of a parameter; the opposite of `gathered`."""
    if not _is_piece(parameter) or not isinstance(value, Tensor) or value.shape != parameter.shape:
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    value = value.to(parameter.device)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
