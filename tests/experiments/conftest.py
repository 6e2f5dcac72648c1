"""What all runs of experiments at toy size share."""

import pytest

from gumdrop.ensembles import correction


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch) -> None:
    """Settle the noise of an ensemble with few draws: its size is tested elsewhere, and runs here train dozens."""
    monkeypatch.setattr(correction, "DRAWS", 4)
