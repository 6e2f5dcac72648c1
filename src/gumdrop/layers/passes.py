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
when it is over: in the pass that they are of, see `gumdrop.layers.again`. Where another library than PyTorch does so,
the pass is found by the node of the graph that asks for it: nodes are numbered in the order in which they are made, and
a pass knows the numbers at its begin and at its end.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287).
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from gumdrop.functional.masks import Kept, Mask
from gumdrop.functional.noise import default_generator
from gumdrop.layers.again import Around, keeps_around
from gumdrop.layers.use import SiteUse

Drawn = TypeVar("Drawn")


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
            with torch.enable_grad():  # a part that is checkpointed may be the first to ask, without a graph
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
    generator: torch.Generator | None
    """What they were drawn by, and its states before and after."""
    before: Tensor | None
    after: Tensor | None

    @classmethod
    def by(cls, key: Any, draw: Callable[[], Any], device: torch.device | None) -> "_Own":
        """Draw them, on a device whose random state they may take."""
        generator = None if device is None else default_generator(device)
        before = None if generator is None else generator.get_state()
        drawn = draw()
        return cls(key, drawn, generator, before, None if generator is None else generator.get_state())

    def step(self) -> None:
        """Go on in the random state where it is that of before: others in a part that is run again draw from it."""
        if self.generator is not None and torch.equal(self.generator.get_state(), self.before):  # type: ignore[arg-type]
            self.generator.set_state(self.after)  # type: ignore[arg-type]


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

    def again(self, use: SiteUse, key: Any, draw: Callable[[], Drawn]) -> Drawn:
        """Give what a site has drawn, to a part that is run again."""
        for table in self.tables:
            if (factor := table.numbers(use, key)) is not None:
                return factor  # type: ignore[return-value]
        for known in self.own.get(use, []):
            if known.key == key:
                known.step()
                drawn: Drawn = known.drawn
                return drawn
        return draw()

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
_AGAIN: ContextVar[_Pass | None] = ContextVar("_AGAIN", default=None)
"""Pass of the part that is run again."""
_ENDED: weakref.WeakSet[_Pass] = weakref.WeakSet()
"""Passes whose graph lives."""


def _next_node() -> int:
    """Number of the node of the graph that is made next, by one that is made here."""
    with torch.enable_grad():
        node: Any = _LEAF.view(()).grad_fn
    number: int = 0 if node is None else node._sequence_nr()  # none in inference mode, which has no graph
    return number


def open_pass(model: nn.Module) -> bool:
    """Tell whether a pass is open that a call of a model is a part of, or one that it is run again for."""
    current, again = _PASS.get(), _pass_again()
    if again is not None and (again is _AGAIN.get() or again.model is not model):  # a whole model draws again
        return True
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
    if current is None or _AGAIN.get() is not None:
        return None
    for table in current.tables:
        if (mask := table.of(use, rows)) is not None:
            return mask if current.is_open() else None
    return None


def drawn_once(use: SiteUse, key: Any, draw: Callable[[], Drawn], device: torch.device | None = None) -> Drawn:
    """Draw numbers that a pass draws once under a key, by the random state of a device, or give those it has drawn."""
    if torch.compiler.is_compiling() or use.kept is not None:  # parts of compiled code may run without a compiler
        return _kept_on_site(use, key, draw)
    if (ended := _pass_again(use, key)) is not None:
        return ended.again(use, key, draw)
    current = _PASS.get()
    if current is None:
        return draw()
    own = current.own.setdefault(use, [])
    if own and not current.is_open():
        _PASS.set(None)  # an abandoned pass must not give its masks, but may take new ones
        return draw()
    known = next((each for each in own if each.key == key), None)
    if known is None:
        own.append(known := _Own.by(key, draw, device))
    drawn: Drawn = known.drawn
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


def _pass_again(use: SiteUse | None = None, key: Any = None) -> _Pass | None:
    """Find the pass that a part is run again of, and in which a site has drawn under a key; None if nothing is."""
    if (kept := _AGAIN.get()) is not None or torch._C._current_graph_task_id() == -1:  # not inside backward
        return kept
    node = torch._C._current_autograd_node()
    number = -1 if node is None else node._sequence_nr()
    ended = [each for each in list(_ENDED) if each.start <= number < each.stop and (use is None or each.has(use, key))]
    if use is not None and len(ended) > 1:  # each thread numbers its nodes by itself
        raise RuntimeError(
            "gradient checkpointing of another library than PyTorch recomputes a part of one of several passes that "
            "threads ran at once, and which one is not known: run the passes of a model one after the other, or use "
            "torch.utils.checkpoint"
        )
    return ended[0] if ended else None


@keeps_around
def _kept_pass() -> Around | None:
    """Keep the pass that is open for a part of it that will be run again."""
    current, again = _PASS.get(), _pass_again()
    if again is None and current is not None and current.is_open():
        again = current
    return None if again is None else functools.partial(_in_pass, again)


@contextlib.contextmanager
def _in_pass(current: _Pass) -> Iterator[None]:
    token = _AGAIN.set(current)
    try:
        yield
    finally:
        _AGAIN.reset(token)
