"""`gumdrop reproduce decisions`, scaled down."""

from functools import partial

import pytest
from sklearn.datasets import load_digits

from gumdrop_experiments.decisions import study as decisions

from builders.reproduced import reproduced


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`X` differs from training in columns that never varied:UserWarning")
def test_a_quick_run_of_decisions(tmp_path, constants) -> None:
    constants(decisions, QUICK_PASSES=1, QUICK_SEEDS=1, POOL=200)
    constants(decisions, load_digits=lambda **_: [part[:400] for part in load_digits(return_X_y=True)])
    for name in ("ConcreteDropoutClassifier", "ConcreteDropoutRegressor"):
        constants(decisions, **{name: partial(getattr(decisions, name), n_members=2, n_mc_samples=5)})
    results = reproduced("decisions", tmp_path / "out", "--quick")
    first = {choice: [curve[0]["accuracy"] for curve in curves] for choice, curves in results["labels"].items()}
    assert len({tuple(values) for values in first.values()}) == 1, "all choices begin with the same rows"
    for kind in results["outliers"][0].values():
        assert all(0 <= score["auroc"] <= 1 for score in kind.values())
    assert [point["rows"] for point in results["growing"]["digits"][0]] == [50, 100]
