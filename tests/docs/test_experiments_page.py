"""The trained models of docs/experiments.md load and predict, and every experiment has a row in its first table."""

import re
import runpy
from pathlib import Path
from typing import Any

FIGURES = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "experiments_page.py"))


def test_every_experiment_is_in_the_first_table() -> None:
    named = re.findall(r"^\| \[(\w+)\]\(", FIGURES["evidence"](), re.M)
    assert set(named) == set(FIGURES["EXPERIMENTS"]), "add a row to docs/figures/evidence.toml"


def test_the_trained_models_load_and_predict(monkeypatch) -> None:
    """The page's own code: what was measured is inside the interval, and most unseen digits are right."""
    monkeypatch.chdir(FIGURES["DOCS"].parent)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", FIGURES["PAGE"].read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    (row,) = names["noise"].to_dict("records")
    assert row["lower"] < 126.2 < row["upper"]
    labels = names["load_digits"]().target[-297:]
    assert (names["digits"].label.numpy() == labels).mean() > 0.85
    assert all(0 < p < 1 for p in names["gd"].dropout_rates(names["model"]).values())
