"""Tables of the terminal: narrow on a screen, whole in a pipe."""

import io

import pytest
from rich.console import Console

from gumdrop.tables.results import Score
from gumdrop.views import terminal
from gumdrop.views.info import show_models
from gumdrop.views.terminal import Voice

NAMES = ("RMSE", "CRPS", "log likelihood", "log probability of step", "coverage of 90% interval")
MODELS = ("learned dropout", "gradient-boosted trees", "mean of the training part")


@pytest.mark.parametrize("screen", [True, False])
def test_names_of_models_stay_in_one_piece(screen, monkeypatch) -> None:
    written = io.StringIO()
    console = Console(file=written, width=80, force_terminal=screen, color_system=None)
    monkeypatch.setattr(terminal, "out_console", console)
    scores = [Score(name=name, ours=False, values=dict.fromkeys(NAMES, 0.2961)) for name in MODELS]
    show_models(Voice(), scores, "70 test rows")
    lines = written.getvalue().splitlines()
    assert all(any(name in line and line.count("0.2961") == 5 for line in lines) for name in MODELS)
    assert (max(map(len, lines)) <= 80) is screen
    assert any("coverage 90%" in line for line in lines) is not screen
