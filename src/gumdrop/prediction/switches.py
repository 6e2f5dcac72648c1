"""Change attributes of modules and settings of the process for a while, and leave nothing behind.

Contexts may overlap without being nested: A begins, B begins, A ends, B ends. Then what A has found goes over to B,
which restores it.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

__all__ = ["ELSEWHERE", "Attribute", "FallbackWarning", "FastPath", "OwnRandomness", "Randomness", "switched"]

ELSEWHERE = (
    "`model` is inside `sampling` or `draw` of another thread; `gumdrop.sample` and the functions that predict work "
    "side by side with anything, or give this thread a `copy.deepcopy` of the model"
)
ABSENT = object()


class Switch(Protocol):
    """Something that can be read and written; equal ones are the same thing."""

    def read(self) -> Any:
        """Give its value."""

    def write(self, value: Any) -> None:
        """Set its value."""


class Attribute(NamedTuple):
    """An attribute of a module, in its own dictionary."""

    module: nn.Module
    name: str

    def read(self) -> Any:
        """Give its value."""
        return vars(self.module).get(self.name, ABSENT)

    def write(self, value: Any) -> None:
        """Set its value, or remove it."""
        if value is ABSENT:
            vars(self.module).pop(self.name, None)
        else:
            vars(self.module)[self.name] = value


class Randomness(NamedTuple):
    """The default generator of a device: a CUDA device, or the CPU for None."""

    device: int | None

    @classmethod
    def of(cls, model: nn.Module) -> list["Randomness"]:
        """List the default generators that a forward of a model may use."""
        devices = {p.device.index for p in model.parameters() if p.device.type == "cuda"}
        return [cls(device) for device in (None, *devices)]

    def _generator(self) -> torch.Generator:
        return torch.default_generator if self.device is None else torch.cuda.default_generators[self.device]

    def read(self) -> Any:
        """Give its state."""
        return self._generator().get_state()

    def write(self, value: Any) -> None:
        """Set its state, or seed it with a number; torch.manual_seed would seed all devices."""
        if isinstance(value, int):
            self._generator().manual_seed(value)
        else:
            self._generator().set_state(value)


class FastPath(NamedTuple):
    """Whether attention and transformer layers may take their fused path."""

    def read(self) -> Any:
        """Give the setting."""
        return torch.backends.mha.get_fastpath_enabled()

    def write(self, value: Any) -> None:
        """Set it."""
        torch.backends.mha.set_fastpath_enabled(value)


class FallbackWarning(NamedTuple):
    """Whether `torch.func.vmap` warns of operations that it runs one by one.

    PyTorch does not tell the setting, so it is taken to be on, unless it was written here.
    """

    def read(self) -> Any:
        """Give the setting."""
        return not _QUIET

    def write(self, value: Any) -> None:
        """Set it."""
        _QUIET[:] = [] if value else [self]
        torch._C._functorch._set_vmap_fallback_warning_enabled(value)  # type: ignore[attr-defined]


_QUIET: list[FallbackWarning] = []
"""Holds something while it is off."""


class _Context(NamedTuple):
    owner: int
    """Thread that it belongs to."""
    before: dict[Switch, Any]
    """What it restores."""


_LOCK = threading.RLock()
_OPEN: list[_Context] = []


@contextlib.contextmanager
def switched(changes: Sequence[tuple[Switch, Any]], owner: int) -> Iterator[None]:
    """Context in which switches have other values.

    Args:
        changes: Switches with their values.
        owner: Identity of the thread that the context belongs to.

    Yields:
        Nothing.

    Raises:
        RuntimeError: If a context of another thread holds one of the modules.
    """
    context = _Context(owner, {})
    with _LOCK:
        modules = {switch for switch, _ in changes if isinstance(switch, Attribute)}
        if any(each.owner != owner and not modules.isdisjoint(each.before) for each in _OPEN):
            raise RuntimeError(ELSEWHERE)
        for switch, value in changes:
            context.before[switch] = switch.read()
            switch.write(value)
        _OPEN.append(context)
    try:
        yield
    finally:
        with _LOCK:
            place = next(i for i, each in enumerate(_OPEN) if each is context)
            later = _OPEN[place + 1 :]
            del _OPEN[place]
            for switch, value in context.before.items():
                heir = next((each for each in later if switch in each.before), None)
                if heir is None:
                    switch.write(value)
                else:
                    heir.before[switch] = value


class OwnRandomness:
    """Default generators as one prediction sees them, for forwards that draw random numbers of their own.

    The default generators are those of the whole process. So predictions take turns with them, and the caller's state
    is restored after each turn. Where the first turn has drawn nothing, there is nothing to take turns for.

    Args:
        model: The model, whose devices count.
        seed: That of the prediction.
    """

    def __init__(self, model: nn.Module, seed: int) -> None:
        self._states: dict[Randomness, Any] = dict.fromkeys(Randomness.of(model), seed)
        self._is_idle = False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Take a turn.

        Yields:
            Nothing.
        """
        if self._is_idle:
            yield
            return
        with _LOCK:
            before = {each: each.read() for each in self._states}
            try:
                begun = {}
                for each, state in self._states.items():
                    each.write(state)
                    begun[each] = each.read()
                yield
                self._states = {each: each.read() for each in self._states}
                self._is_idle = all(torch.equal(state, begun[each]) for each, state in self._states.items())
            finally:
                for each, state in before.items():
                    each.write(state)
