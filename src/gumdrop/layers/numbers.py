"""Learned rates of dropout that code applies by functions, at rates that modules hold as numbers.

Such a number becomes a `Rate`: a 0 that code hands on to ``dropout`` or ``scaled_dot_product_attention`` as it did the
number. While the module runs, these two are watched, and what they give goes through the site that the rate stands for.
A rate that reaches another function, such as a kernel of another library, drops nothing.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from gumdrop.layers.again import Around, keeps_around
from gumdrop.layers.block import SITE
from gumdrop.layers.dense import put_in_front
from gumdrop.layers.in_place import DropInPlace

ASKED: dict[Callable[..., Any], tuple[int, str]] = {
    F.dropout: (1, "p"),
    torch.dropout: (1, "p"),
    F.scaled_dot_product_attention: (4, "dropout_p"),
}
"""Functions that drop: where their rate stands among the arguments, and its name."""


class InCode(nn.ModuleDict):
    """Sites of the numbers that the code of a module drops by, by the names of its attributes."""


class Rate(float):
    """A rate of 0 that stands for a learned one."""

    child: str
    """Name of the child that holds it, in the module whose code reads it; empty if that is the module itself."""
    attribute: str
    """Where it is held."""

    @classmethod
    def of(cls, child: str, attribute: str) -> "Rate":
        """Make one."""
        rate = cls(0.0)
        rate.child, rate.attribute = child, attribute
        return rate


class _Asking(TorchFunctionMode):
    """Lets sites drop where the code of a module hands their rates to functions."""

    def __init__(self, module: nn.Module, used: Mapping[DropInPlace, int] | None = None) -> None:
        super().__init__()
        self.module = module
        self.used = dict(used or {})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function, and drop where it was to."""
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func not in ASKED:
            return output
        position, name = ASKED[func]
        site = self._site_of(kwargs.get(name, args[position] if len(args) > position else None))
        return output if site is None else self._dropped(site, output)

    def _dropped(self, site: DropInPlace, x: Tensor) -> Tensor:
        start = self.used.get(site, 0)
        self.used[site] = start + site.units_of(x, start)
        return site(x, start)

    def _site_of(self, rate: Any) -> DropInPlace | None:
        """Find what a rate stands for; None if it is a number, or of a module further out."""
        if not isinstance(rate, Rate):
            return None
        holder: Any = self.module._modules.get(rate.child) if rate.child else self.module
        if holder is None or vars(holder).get(rate.attribute) is not rate:
            return None
        site = holder._modules[SITE]
        return site if isinstance(site, DropInPlace) else site[rate.attribute]


def _forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Run a module whose code drops by functions; in eval, exactly as it does."""
    if not module.training:
        return type(module).forward(module, *args, **kwargs)
    with _Asking(module):
        return type(module).forward(module, *args, **kwargs)


@keeps_around
def _kept_asking() -> Around | None:
    """Keep the modules that ask around a part that will be run again, and how many units they have dropped so far."""
    asking = [mode for mode in _get_current_function_mode_stack() if isinstance(mode, _Asking)]
    used = [(mode.module, dict(mode.used)) for mode in asking]
    return functools.partial(_ask_again, used) if used else None


@contextlib.contextmanager
def _ask_again(used: list[tuple[nn.Module, dict[DropInPlace, int]]]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, start in used:
            stack.enter_context(_Asking(module, start))
        yield


def attach_in_place(module: nn.Module, attribute: str, site: DropInPlace, parent: nn.Module, child: str) -> None:
    """Place a site in front of a module that does nothing but drop, and where the code around it reads its rate."""
    put_in_front(module, site.train(module.training))
    setattr(module, attribute, Rate.of(child, attribute))
    if methods_that_read(type(parent), child, attribute):
        _ask(parent)


def attach_in_code(module: nn.Module, attribute: str, site: DropInPlace) -> bool:
    """Place a site where the code of a module drops by a number of its own, which becomes 0; tell whether it does."""
    holder = module._modules.setdefault(SITE, InCode())
    if not (isinstance(holder, InCode) and methods_that_read(type(module), attribute) and _ask(module)):
        return False
    holder[attribute] = site.train(module.training)
    setattr(module, attribute, Rate.of("", attribute))
    return True


def _ask(module: nn.Module) -> bool:
    """Let a module ask its sites where its code hands their rates to functions; False if its forward is another's."""
    if "forward" in vars(module):
        return is_asking(module)
    parameters = inspect.signature(module.forward).parameters.values()
    forward: Any = functools.partial(_forward, module)
    forward.__signature__ = inspect.Signature([each.replace(annotation=each.empty) for each in parameters])
    vars(module)["forward"] = forward
    return True


def is_asking(module: nn.Module) -> bool:
    """Tell whether a module asks its sites."""
    return getattr(vars(module).get("forward"), "func", None) is _forward


def keep_asking(model: nn.Module) -> None:
    """Let a copy of a model in eval, whose sites are given masks, read its rates as in training; plain ones are off."""
    for module in model.modules():
        if is_asking(module):
            module.training = True
            vars(module).update({n: 0.0 for n, value in vars(module).items() if "drop" in n and type(value) is float})
            for name, child in module.named_children():
                if type(vars(child).get("p")) is float and methods_that_read(type(module), name, "p"):
                    vars(child)["p"] = 0.0


def methods_that_read(cls: type, *names: str) -> list[FunctionType]:
    """Find the methods of a class, other than the one that builds it, that read attributes of these names."""
    methods = {name: each for c in reversed(cls.__mro__) if c is not nn.Module for name, each in vars(c).items()}
    own = [inspect.unwrap(each) for name, each in methods.items() if inspect.isfunction(each) and name != "__init__"]
    return [each for each in own if set(names) <= set(each.__code__.co_names)]
