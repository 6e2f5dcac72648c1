"""Torch's default generators, which belong to the whole process."""

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch import Tensor, nn

_LOCK = threading.RLock()


class OwnRandomness:
    """Default generators as one prediction sees them, for forwards that draw random numbers of their own.

    Predictions take turns with them, and the caller's state is restored after each turn. Where the first turn has drawn
    nothing, there is nothing to take turns for.
    """

    def __init__(self, model: nn.Module, seed: int) -> None:
        devices = {p.device.index for p in model.parameters() if p.device.type == "cuda"}
        self._generators = [torch.default_generator, *(torch.cuda.default_generators[i] for i in devices)]
        self._states: list[Tensor] = [torch.Generator(g.device).manual_seed(seed).get_state() for g in self._generators]
        self._is_idle = False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Take a turn."""
        if self._is_idle:
            yield
            return
        with _LOCK:
            before = [generator.get_state() for generator in self._generators]
            try:
                for generator, state in zip(self._generators, self._states, strict=True):
                    generator.set_state(state)
                yield
                after = [generator.get_state() for generator in self._generators]
                self._is_idle = all(map(torch.equal, after, self._states))
                self._states = after
            finally:
                for generator, state in zip(self._generators, before, strict=True):
                    generator.set_state(state)
