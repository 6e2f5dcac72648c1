"""`gumdrop reproduce decisions`, scaled down."""

import pytest

from gumdrop_experiments.decisions import study as decisions

from builders.reproduced import reproduced


@pytest.mark.slow
def test_a_quick_run_of_decisions(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(decisions, "QUICK_PASSES", 1)
    results = reproduced("decisions", tmp_path / "out", "--quick")
    first = {choice: [curve[0]["accuracy"] for curve in curves] for choice, curves in results["labels"].items()}
    assert len({tuple(values) for values in first.values()}) == 1, "all choices begin with the same rows"
    for kind in results["outliers"][0].values():
        assert all(0 <= score["auroc"] <= 1 for score in kind.values())
    assert [point["rows"] for point in results["growing"]["digits"][0]] == [50, 100]
