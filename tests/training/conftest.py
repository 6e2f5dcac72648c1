"""Runs that are stopped."""

import contextlib
import itertools

import pytest

from gumdrop.likelihoods import Gaussian
from gumdrop.training import state


@pytest.fixture
def stopped_at(monkeypatch):
    """Context in which training on numbers saves its state after each epoch, and stops in a step as by Ctrl-C."""
    own = Gaussian.nll

    @contextlib.contextmanager
    def stopped(step: int):
        calls = itertools.count(1)

        def nll(self, output, target):
            if output.requires_grad and next(calls) == step:
                raise KeyboardInterrupt
            return own(self, output, target)

        with monkeypatch.context() as patch:
            patch.setattr(Gaussian, "nll", nll)
            patch.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
            with pytest.raises(KeyboardInterrupt):
                yield

    return stopped
