"""The commands of all experiments stand on the page of experiments, and its trained models load and predict."""

import re
from typing import Any

from builders.generated import ROOT

PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


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
