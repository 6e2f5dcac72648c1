"""Place sites in front of layers, and find them again together with the weights that they drop.

A layer stays what it was: its class, its attributes, its weights and their names in the state dict. It gains a
child module ``concrete_dropout``, and a forward pre-hook (or, for recurrent and attention modules, a forward of
the instance) that looks the child up on the module it is called with, so that copies, pickles and functional
calls use their own.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from gumdrop.functional.devices import read
from gumdrop.functional.noise import is_traced
from gumdrop.layers.block import SITE, Block, joined, without_weight
from gumdrop.layers.dense import WeightMatrix, attach_custom, custom_blocks, drop_input, drop_words
from gumdrop.layers.in_place import DropInPlace, in_place_block
from gumdrop.layers.kinds import DENSE, kind_of
from gumdrop.layers.numbers import InCode
from gumdrop.layers.site import ConcreteDropout
from gumdrop.layers.table import begin_pass, end_pass

LARGEST_LEARNED = 1e4
"""Size of a logit that no training reaches, while memory that nobody wrote to is mostly beyond, or below all others."""
COMPILER = "torch._dynamo.config"


def is_watched(model: nn.Module) -> bool:
    """Tell whether a model has forward hooks beside those of conversion, which watch what runs, or change it."""
    hooks = [h for m in model.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
    return any(hook not in (drop_input, drop_words, begin_pass, end_pass) for hook in hooks)


def attach(
    layer: nn.Module,
    make_site: Callable[..., ConcreteDropout],
    *,
    recurrent: bool = False,
    own_input: bool = True,
    weight_matrix: WeightMatrix | None = None,
) -> None:
    """Place sites on a layer of a known type, or of any type together with ``weight_matrix``."""
    if weight_matrix is not None:
        attach_custom(layer, make_site, weight_matrix)
    else:
        kind = kind_of(layer)
        assert kind is not None
        kind.attach(layer, make_site, recurrent=recurrent, own_input=own_input)
    layer.get_submodule(SITE).train(layer.training)
    guard_hooks()


def dropout_blocks(model: nn.Module) -> Iterator[Block]:
    """Walk over all sites of a model with the weights that they drop; a shared module comes once.

    Args:
        model: Any model.

    Yields:
        One block for each site and module.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.LSTM(4, 3)))
        >>> [(block.name, tuple(block.weight.shape)) for block in dropout_blocks(model)]
        [('0', (4, 8)), ('2.ih_l0', (12, 4))]
    """
    lists: dict[int, ParametrizationList] = {}
    for name, layer in named_parts(model):
        if layer._forward_pre_hooks:
            _renew_weights(layer)
        if isinstance(layer, ParametrizationList):
            lists[id(layer[0])] = layer
        holder = layer._modules.get(SITE)
        if holder is None:
            continue
        if isinstance(holder, DropInPlace):
            yield in_place_block(name, holder, lists.get(id(layer)))
        elif isinstance(holder, InCode):
            yield from (without_weight(joined(name, part), cast(DropInPlace, site)) for part, site in holder.items())
        elif getattr(holder, "weight_matrix", None) is not None:
            yield from custom_blocks(name, layer)
        else:  # who places a site by hand does so in front of a dense weight
            yield from (kind_of(layer) or DENSE).blocks(name, layer)


def named_parts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Walk over a model as `torch.nn.Module.named_modules` does, in half the time: each objective does so."""
    seen: set[nn.Module] = set()
    left = [("", model)]
    while left:
        name, module = left.pop()
        if module not in seen:
            seen.add(module)
            yield name, module
            prefix = f"{name}." if name else ""
            children = [(prefix + each, child) for each, child in module._modules.items() if child is not None]
            left += reversed(children)


def _renew_weights(layer: nn.Module) -> None:
    """Compute anew what a hook computes in front of each forward, as pruning does: it is that of the last forward."""
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod):
            setattr(layer, hook._tensor_name, hook.apply_mask(layer))
        elif isinstance(hook, WeightNorm):
            setattr(layer, hook.name, hook.compute_weight(layer))
        elif isinstance(hook, SpectralNorm):
            setattr(layer, hook.name, hook.compute_weight(layer, do_power_iteration=False))


def share_sites(model: nn.Module) -> None:
    """Let the blocks of one weight have one site: one weight has one posterior, so one rate."""
    first: dict[tuple[int, ...], ConcreteDropout] = {}
    shared: dict[int, ConcreteDropout] = {}
    blocks = list(dropout_blocks(model))  # keeps computed weights alive, so that no two have one id
    for _, site, weight, *_ in blocks:
        is_view = weight._base is not None
        part = (id(weight._base), weight.storage_offset(), weight.numel()) if is_view else (id(weight),)
        shared[id(site)] = first.setdefault((*part, site.num_units, site.feature_dim), site)
    for module in list(model.modules()):
        for name, child in module._modules.items():
            module._modules[name] = shared.get(id(child), child)


def check_rates(sites: Iterable[ConcreteDropout], model: nn.Module) -> None:
    """Refuse rates that cannot have been learned; what is traced or has no memory passes."""
    if is_traced():
        return
    there = [site for site in sites if not site.scaled_logit.is_meta]
    # A norm is one operation, whatever the shape: that of one number is its size, and of several the largest.
    for site, largest in zip(there, read([site.p_logit.detach().norm(math.inf) for site in there]), strict=True):
        if not largest <= LARGEST_LEARNED:
            name = next(name for name, module in model.named_modules() if module is site)
            name = name.replace(f".{SITE}", "").removeprefix(SITE).removeprefix(".")
            raise ValueError(
                f"the logit of the drop probability of {name or 'the model'!r} must be a number between "
                f"{-LARGEST_LEARNED:g} and {LARGEST_LEARNED:g}, got {largest:g}: training diverged, or it was never "
                "initialised because the model was built on the meta device and loaded from a checkpoint without "
                "rates; call `reset_parameters()` of each `gumdrop.layers.ConcreteDropout` in `model.modules()`, or "
                "convert the model after loading"
            )


def guard_hooks() -> None:
    """Have `torch.compile` look for hooks from now on, and forget what it compiled without; it is not loaded for it.

    It does not look whether a module has hooks when it decides which of the compiled versions of a forward to run. So
    what it compiled for a plain model would serve a converted one of the same class, without its dropout.
    """
    settings: Any = sys.modules.get(COMPILER)
    if settings is None:
        if _WhenLoaded not in sys.meta_path:
            sys.meta_path.insert(0, _WhenLoaded)
    elif settings.skip_nnmodule_hook_guards:
        settings.skip_nnmodule_hook_guards = False
        sys.modules["torch._dynamo"].reset()


class _WhenLoaded:
    """Finder of modules that changes the settings of the compiler as soon as they are loaded."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the settings, for once."""
        if name != COMPILER:
            return None
        sys.meta_path.remove(_WhenLoaded)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_and_set(module: Any) -> None:
            load(module)
            module.skip_nnmodule_hook_guards = False

        spec.loader.exec_module = load_and_set  # type: ignore[method-assign]
        return spec
