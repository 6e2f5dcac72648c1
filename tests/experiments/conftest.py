"""What runs of experiments share."""

import pytest


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch) -> None:
    """The memory of each method is measured after a collection, which takes longer than the methods do here."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)
