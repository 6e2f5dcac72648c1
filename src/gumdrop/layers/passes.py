"""One mask for each example of a pass over a model, however often the pass uses a layer.

A mask is a draw of the weights behind it. A layer that a forward calls several times (a recurrent cell of one's own,
the shared layer of ALBERT) has one weight, so all its calls see one mask, as in a drawn function. `learn_dropout` puts
two hooks on the model that it is given: they begin and end the pass. A layer that is called outside of any pass draws
at each call.

The masks of a pass are kept in a context variable, so that threads that run one model do not see each other's. Code
that is compiled cannot set one, and keeps them on the sites.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287).
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

Drawn = TypeVar("Drawn")
Kept = list[tuple[Any, Any]]


class SiteUse:
    """What a site remembers of its calls. An object, not numbers, so that replicas of a model share it."""

    def __init__(self, units: int) -> None:
        self.units = units
        """Units that the site can drop, or the most that its inputs have had, see `gumdrop.layers.in_place`."""
        self.called = False
        """Whether the site dropped units since the last look at it, see `gumdrop.layers.watch`."""
        self.repeated = False
        """Whether a pass has used its mask more than once."""
        self.kept: Kept | None = None
        """Masks of the pass that is open, in compiled code."""
        self.has_acted = False
        """Whether it ever has, at a look."""
        self.missed = 0
        """Looks in a row without an act of the site."""
        self.versions: tuple[int, int] | None = None
        """Versions of weight and rate at the last look."""
        self.waited = 0
        """Steps of the weight since the last one of the rate."""
        self.objectives = 0
        """Objectives so far."""
        self.whole = 0
        """Rows of an objective whose batch was all of `num_data`."""
        self.was_smaller = False
        """Whether a smaller batch has followed it."""
        self.told_of_num_data = False
        """Whether that was said."""
        self.told = False
        """Whether somebody knows that predictions drop nothing, or is not to be told."""


class _Pass(NamedTuple):
    model: nn.Module
    frame: FrameType
    """That of the call, by which an abandoned pass is known."""
    kept: dict[SiteUse, Kept]

    def is_open(self) -> bool:
        """Tell whether the call still runs: where a part of it is compiled, or interrupted, nobody may end the pass."""
        try:
            self.frame.clear()
        except RuntimeError:  # it is executing
            return True
        return False


_PASS: ContextVar[_Pass | None] = ContextVar("_PASS", default=None)


def open_passes(model: nn.Module) -> None:
    """Let each call of a model be a pass."""
    if begin_pass not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(begin_pass, prepend=True)
        model.register_forward_hook(end_pass, always_call=True)


def begin_pass(model: nn.Module, args: Any) -> None:
    """Forward pre-hook: begin a pass, unless this call is a part of one."""
    if torch.compiler.is_compiling():
        for use in _uses(model):
            use.kept = []
        return
    current = _PASS.get()
    if current is None or not current.is_open():
        _PASS.set(_Pass(model, sys._getframe(1), {}))


def end_pass(model: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: end the pass that this call began, and forget its masks."""
    if torch.compiler.is_compiling():
        for use in _uses(model):
            use.kept = None
        return
    current = _PASS.get()
    if current is not None and current.model is model and current.frame is sys._getframe(1):
        _PASS.set(None)


def _uses(model: nn.Module) -> list[SiteUse]:
    uses = (vars(module).get("use") for module in model.modules())
    return [use for use in uses if isinstance(use, SiteUse)]


def drawn_once(use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
    """Draw what a pass draws once under a key, or give what it has drawn under it."""
    kept = use.kept if torch.compiler.is_compiling() else _kept(use)
    if kept is None:
        return draw()
    for other, drawn in kept:
        if other == key:
            use.repeated = True
            return drawn
    drawn = draw()
    kept.append((key, drawn))
    return drawn


def _kept(use: SiteUse) -> Kept | None:
    """Masks that the open pass has drawn for a site; None outside of any pass."""
    current = _PASS.get()
    if current is not None:
        kept = current.kept.get(use)
        if kept is None:
            kept = current.kept[use] = []
        if not kept or current.is_open():  # an abandoned pass must not give its masks, but may take new ones
            return kept
        _PASS.set(None)
    if use.repeated and torch._C._current_graph_task_id() != -1:  # inside backward
        raise RuntimeError(
            "a layer that is used several times in a pass is recomputed by gradient checkpointing, where its mask is "
            "not known any more: switch checkpointing off, or leave the layer out by `exclude`"
        )
    return None
