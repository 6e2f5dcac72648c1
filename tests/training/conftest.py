"""Runs that are stopped."""

import contextlib
import itertools

import pytest

from gumdrop.training import state


@pytest.fixture
def stopped_at(monkeypatch):
    """Context in which training saves its state after each epoch, and stops in a step as by Ctrl-C."""
    own = state.TrainingState.advance

    @contextlib.contextmanager
    def stopped(step: int):
        calls = itertools.count(1)

        def advance(self):
            if next(calls) == step:
                raise KeyboardInterrupt
            own(self)

        with monkeypatch.context() as patch:
            patch.setattr(state.TrainingState, "advance", advance)
            patch.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
            with pytest.raises(KeyboardInterrupt):
                yield

    return stopped
