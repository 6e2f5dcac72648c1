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

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

__all__ = ["SiteUse", "begin_pass", "drawn_once", "end_pass", "open_passes"]

Drawn = TypeVar("Drawn")
Kept = list[tuple[Any, Any]]


class SiteUse:
    """What a site remembers of its calls. An object, not numbers, so that replicas of a model share it."""

    def __init__(self) -> None:
        self.called = False
        """Whether the site dropped units since the last objective."""
        self.repeated = False
        """Whether a pass has used its mask more than once."""
        self.depth = 0
        """Passes that are open, in compiled code."""
        self.kept: Kept | None = None
        """Masks of the pass that is open, in compiled code."""


class _Pass(NamedTuple):
    model: nn.Module
    kept: dict[int, Kept]


_PASS: ContextVar[_Pass | None] = ContextVar("_PASS", default=None)


def open_passes(model: nn.Module) -> None:
    """Let each call of a model be a pass.

    Args:
        model: A model with sites.
    """
    if begin_pass not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(begin_pass, prepend=True)
        model.register_forward_hook(end_pass, always_call=True)


def begin_pass(model: nn.Module, args: Any) -> None:
    """Forward pre-hook: begin a pass, unless this call is a part of one.

    Args:
        model: The model.
        args: Its arguments.
    """
    if torch.compiler.is_compiling():
        for use in _uses(model):
            use.depth += 1
            if use.depth == 1:
                use.kept = []
        return
    current = _PASS.get()
    # A pass of the same model was left open by an interruption, since a model is seldom a part of itself.
    if current is None or current.model is model:
        _PASS.set(_Pass(model, {}))


def end_pass(model: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: end the pass that this call began, and forget its masks.

    Args:
        model: The model.
        args: Its arguments.
        output: Its output.
    """
    if torch.compiler.is_compiling():
        for use in _uses(model):
            use.depth -= 1
            if use.depth == 0:
                use.kept = None
        return
    current = _PASS.get()
    if current is not None and current.model is model:
        _PASS.set(None)


def _uses(model: nn.Module) -> list[SiteUse]:
    uses: list[SiteUse] = []
    for module in model.modules():
        use = vars(module).get("use")
        if isinstance(use, SiteUse) and use not in uses:
            uses.append(use)
    return uses


def drawn_once(use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
    """Draw what a pass draws once, or give what it has drawn under the same key.

    Args:
        use: Of the site that draws.
        key: What is drawn: the number of examples, and what else tells two kinds of it apart.
        draw: Draws.

    Returns:
        What was drawn.

    Raises:
        RuntimeError: If a layer that passes use several times is recomputed for a gradient, where its mask is gone.
    """
    kept = _kept(use)
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
    if torch.compiler.is_compiling():
        return use.kept
    current = _PASS.get()
    if current is not None:
        return current.kept.setdefault(id(use), [])
    if use.repeated and torch._C._current_graph_task_id() != -1:  # inside backward
        raise RuntimeError(
            "a layer that is used several times in a pass is recomputed by gradient checkpointing, where its mask is "
            "not known any more: switch checkpointing off, or leave the layer out by `exclude`"
        )
    return None
