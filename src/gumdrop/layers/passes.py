"""One mask for each example of a pass over a model, however often the pass uses a layer, and all masks in one table.

A mask is a draw of the weights behind it. A layer that a forward calls several times (a recurrent cell of one's own,
the shared layer of ALBERT) has one weight, so all its calls see one mask, as in a drawn function. `learn_dropout` puts
two hooks on the model that it is given: they begin and end the pass.

In training, a pass begins with the table of its masks: relaxed masks of all rates that are learned, Bernoulli masks of
those that are fixed, for as many rows as the first input has, drawn and computed by one operation for all sites. A site
multiplies by its columns. It draws masks of its own where it has another number of rows or a size that only its inputs
tell, in code that is compiled, and outside of any pass.

The pass that is open is kept in a context variable, so that threads that run one model do not see each other's masks.
Code that is compiled cannot set one, and keeps them on the sites. Gradient checkpointing runs parts of a pass again
when it is over. The pass is found by the node of the graph that asks for it: nodes are numbered in the order in which
they are made, and a pass knows the numbers at its begin and at its end.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287).
"""

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from gumdrop.functional.masks import Kept, Mask

Drawn = TypeVar("Drawn")


class SiteUse:
    """What a site remembers of its calls. An object, not numbers, so that replicas of a model share it."""

    def __init__(self, units: int) -> None:
        self.units = units
        """Units that the site can drop, or the most that its inputs have had, see `gumdrop.layers.in_place`."""
        self.called = False
        """Whether the site dropped units since the last look at it, see `gumdrop.layers.watch`."""
        self.kept: list[tuple[Any, Any]] | None = None
        """Noise of the pass that is open, in compiled code."""
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
        self.inputs: Tensor | None = None
        """Mean and deviation of the inputs of the last such batch."""
        self.changes = 0
        """Batches of this size in a row whose inputs were others than those of the one before."""
        self.looks = 0
        """Batches of this size that were compared."""
        self.told_of_num_data = False
        """Whether a `num_data` that is the size of the batch was reported."""
        self.told_of_mean = False
        """Whether a mean over positions was reported."""
        self.told = False
        """Whether somebody knows that predictions drop nothing, or is not to be told."""


class Table:
    """Masks of several sites for one number of rows, side by side."""

    def __init__(
        self, rows: int, uses: dict[SiteUse, int], sizes: list[int], mask: Mask, numbers: Tensor | Kept
    ) -> None:
        self.rows = rows
        self.uses = uses
        """Position of each site."""
        self.sizes = sizes
        """Number of columns of each site."""
        self.mask: Mask | None = mask
        """Of all columns, (rows, C); None when the pass has ended, which must not keep the graph."""
        self._numbers = numbers
        """The numbers alone, for parts of the pass that are run again."""
        self._parts: list[tuple[Tensor, ...]] = []

    def of(self, use: SiteUse, rows: int) -> Mask | None:
        """Give the mask of a site for so many rows; None if it has none."""
        position = self.uses.get(use) if rows == self.rows else None
        if position is None or self.mask is None:
            return None
        if not self._parts:
            self._parts = [part.split(self.sizes, 1) for part in self.mask if part is not None]
        return Mask(*[part[position] for part in self._parts])

    def numbers(self, use: SiteUse, rows: Any) -> Tensor | Kept | None:
        """Give the numbers of its mask alone."""
        position = self.uses.get(use) if rows == self.rows else None
        if position is None:
            return None
        if isinstance(self._numbers, Tensor):
            return self._numbers.split(self.sizes, 1)[position]
        return Kept(*[part.split(self.sizes, -1)[position] for part in self._numbers])

    def end(self) -> None:
        """Forget the graph."""
        self.mask, self._parts = None, []


class _Own(NamedTuple):
    """Numbers that a site has drawn by itself."""

    key: Any
    drawn: Any
    asked: list[int]
    """Numbers of the next node of the graph when the site asked for it."""


class _Pass:
    """A call of a model, from its first hook to its last."""

    def __init__(self, model: nn.Module, frame: FrameType | None, tables: list[Table]) -> None:
        self.model = model
        self.frame = frame
        """That of the call, by which an abandoned pass is known."""
        self.tables = tables
        self.own: dict[SiteUse, list[_Own]] = {}
        self.start, self.stop = _next_node(), 0
        """Numbers of the nodes of the graph: the first of the pass, and the first behind it."""

    def is_open(self) -> bool:
        """Tell whether the call still runs: where a part of it is compiled, or interrupted, nobody may end the pass."""
        try:
            assert self.frame is not None
            self.frame.clear()
        except RuntimeError:  # it is executing
            return True
        return False

    def has(self, use: SiteUse, key: Any) -> bool:
        """Tell whether a site has drawn under a key."""
        is_own = any(own.key == key for own in self.own.get(use, []))
        return is_own or any(use in table.uses and table.rows == key for table in self.tables)

    def close(self, output: Any) -> None:
        """Keep what a part that is run again needs, for as long as the graph of the output lives."""
        self.stop, self.frame = _next_node(), None
        for leaf in [output] if isinstance(output, Tensor) else tree_leaves(output):
            if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
                node: Any = leaf.grad_fn
                node.metadata[_Pass] = self
                _ENDED.add(self)
        for table in self.tables:
            table.end()


_LEAF = torch.zeros((), requires_grad=True)
_SEEN = WeakIdKeyDictionary()
"""First input of the last pass of each model, by a weak reference."""
_PASS: ContextVar[_Pass | None] = ContextVar("_PASS", default=None)
_ENDED: weakref.WeakSet[_Pass] = weakref.WeakSet()
"""Passes whose graph lives."""


def _next_node() -> int:
    """Number of the node of the graph that is made next, by one that is made here."""
    with torch.enable_grad():
        node: Any = _LEAF.view(()).grad_fn
    number: int = 0 if node is None else node._sequence_nr()  # none in inference mode, which has no graph
    return number


def open_pass() -> bool:
    """Tell whether a pass is open."""
    current = _PASS.get()
    return current is not None and current.is_open()


def start_pass(model: nn.Module, frame: FrameType, first: Tensor | PackedSequence | None, tables: list[Table]) -> None:
    """Begin a pass with its first input, if that is known, and the tables of its masks."""
    _PASS.set(_Pass(model, frame, tables))
    if first is not None:
        _SEEN[model] = weakref.ref(first.data if isinstance(first, PackedSequence) else first)


def seen_by(model: nn.Module) -> Tensor | None:
    """Give the first input of the last pass of a model, if it is known and somebody still holds it."""
    reference = _SEEN.get(model)
    return None if reference is None else reference()


def finish_pass(model: nn.Module, frame: FrameType, output: Any) -> None:
    """End the pass that this call of a model began, and forget its masks."""
    current = _PASS.get()
    if current is not None and current.model is model and current.frame is frame:
        _PASS.set(None)
        current.close(output)


def mask_of_table(use: SiteUse, rows: int) -> Mask | None:
    """Find the mask that the open pass has for a site and so many rows; None if it has none, or outside of any pass."""
    current = None if torch.compiler.is_compiling() else _PASS.get()
    if current is None:
        return None
    for table in current.tables:
        if (mask := table.of(use, rows)) is not None:
            return mask if current.is_open() else None
    return None


def drawn_once(use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
    """Draw numbers that a pass draws once under a key, or give those that it has drawn under it."""
    if torch.compiler.is_compiling() or use.kept is not None:  # parts of compiled code may run without a compiler
        return _kept_on_site(use, key, draw)
    current = _PASS.get()
    if current is not None and (own := current.own.setdefault(use, [])) and not current.is_open():
        _PASS.set(current := None)  # an abandoned pass must not give its masks, but may take new ones
    if current is None:
        return _drawn_again(use, key, draw)
    asked = _next_node()
    for known in own:
        if known.key == key:
            known.asked.append(asked)
            drawn: Drawn = known.drawn
            return drawn
    own.append(_Own(key, drawn := draw(), [asked]))
    return drawn


def _kept_on_site(use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
    if use.kept is None:
        return draw()
    for other, kept in use.kept:
        if other == key:
            drawn: Drawn = kept
            return drawn
    use.kept.append((key, drawn := draw()))
    return drawn


def _drawn_again(use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
    """Draw outside of any pass, or find what was drawn in the pass that a part is run again of."""
    if torch._C._current_graph_task_id() == -1:  # not inside backward
        return draw()
    node = torch._C._current_autograd_node()
    number = -1 if node is None else node._sequence_nr()
    ended = [each for each in list(_ENDED) if each.start <= number < each.stop and each.has(use, key)]
    if not ended:
        return draw()
    if len(ended) > 1:  # each thread numbers its nodes by itself
        raise RuntimeError(
            "gradient checkpointing recomputes a part of one of several passes that threads ran at once, and which one "
            "is not known: run the passes of a model one after the other, or switch checkpointing off"
        )
    for table in ended[0].tables:
        if (numbers := table.numbers(use, key)) is not None:
            return numbers  # type: ignore[return-value]
    (known,) = (own for own in ended[0].own[use] if own.key == key)
    # The random state was set back to that of the begin of the part, and others draw from it, too: where this part was
    # the first to ask, it draws again. A reentrant part asks by its own node, which is older than all in it, any other
    # by one of the last that it made.
    before = sum(asked <= number for asked in known.asked)
    if before == (0 if "Checkpoint" in type(node).__name__ else 1):
        draw()
    drawn: Drawn = known.drawn
    return drawn
