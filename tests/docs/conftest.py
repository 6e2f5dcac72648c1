"""Trainings that are over at once."""

import pytest

from gumdrop.ensembles import EnsembleSettings

SHORT = {
    "folds.STEPS": 10, "folds.LEAST_EPOCHS": 2, "choosing.LEAST_PILOT_STEPS": 5, "choosing.PILOT_MEMBERS": 2,
    "correction.DRAWS": 2,
}  # fmt: skip


@pytest.fixture
def in_haste(monkeypatch) -> None:
    """Train few networks for a few steps: nothing but numbers depends on it."""
    monkeypatch.setattr(EnsembleSettings, "members_for", lambda self, num_rows: self.num_members or 2)
    for name, count in SHORT.items():
        monkeypatch.setattr(f"gumdrop.ensembles.{name}", count)
