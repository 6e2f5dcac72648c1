"""The commands of all experiments stand on the page of experiments, and its trained models load and predict."""

import re
from typing import Any

import pytest

from builders.generated import ROOT, generators

PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        (["camvid/learned/*/no_draws/miou", "camvid/fixed 0.2/*/no_draws/miou"], "reproduced"),
        (["camvid/fixed 0.2/*/no_draws/miou", "camvid/learned/*/no_draws/miou"], "contradicted"),
        (["camvid/learned/*/draws/miou", "camvid/learned/*/no_draws/miou"], "undecided"),
    ],
)
def test_a_verdict_is_that_of_the_interval(gain: list[str], verdict: str) -> None:
    assert generators()[0]["gained"]({"gain": gain})[1:] == ("3", verdict)


def test_the_trained_models_load_and_predict(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    rows = names["progression"]
    truth = names["patients"]().head(len(rows))["progression"]
    assert ((rows["lower"] < truth) & (truth < rows["upper"])).mean() > 0.75
    labels = names["load_digits"]().target[-297:]
    assert (names["digits"].label.numpy() == labels).mean() > 0.85
    assert all(0 < p < 1 for p in names["gd"].dropout_rates(names["model"]).values())
