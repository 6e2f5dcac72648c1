"""`gumdrop reproduce surrogate`, scaled down; skipped where BoTorch is absent."""

import math
from importlib.util import find_spec

import pytest
import torch

from gumdrop_experiments.surrogate import study

from builders.reproduced import reproduced

needs_botorch = pytest.mark.skipif(find_spec("botorch") is None, reason="botorch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")  # those of BoTorch


@needs_botorch
def test_functions_have_their_minimum_inside_and_are_maximised_below_it() -> None:
    for problem in study.FUNCTIONS.values():
        function = problem.make()
        low, high = function.bounds.double()
        for optimum in function.optimizers.double():
            assert ((low < optimum) & (optimum < high)).all()
            assert function(optimum).item() == pytest.approx(function.optimal_value, abs=1e-3)
        assert function((low + high) / 2 + 0.1).item() < function.optimal_value


@needs_botorch
def test_drawn_functions_are_those_of_the_networks_above_their_own_best() -> None:
    from gumdrop import sample
    from gumdrop_experiments.surrogate.models import DRAWS, Networks, centred

    torch.manual_seed(0)
    x = torch.rand(12, 3, dtype=torch.float64)
    networks = Networks(3, steps=10, is_fixed=False)
    acquisition = networks.acquisition(x, x.sum(1, keepdim=True), seed=7)
    values = acquisition.model(x)
    assert values.shape == (20, 12, 1)
    assert values.amax(1) == pytest.approx(torch.zeros(20, 1), abs=1e-9)
    for i, member in enumerate(networks.members):
        drawn = sample(member, centred(x).float(), num_samples=DRAWS, seed=7 + i)[..., :1].double()
        own = drawn - drawn.amax(1, keepdim=True)
        torch.testing.assert_close(values[DRAWS * i : DRAWS * (i + 1)], own, rtol=1e-4, atol=1e-5)
    point = torch.rand(4, 2, 3, dtype=torch.float64)
    mean = acquisition.model.posterior(point).values.clamp_min(0).amax(2).mean(1).squeeze(1)
    assert acquisition(point).exp().detach() == pytest.approx(mean.detach(), rel=0.05, abs=1e-5)


@needs_botorch
def test_a_quick_run_starts_all_ways_from_the_same_points(tmp_path) -> None:
    found = reproduced("surrogate", tmp_path / "out", "--quick", "--functions", "branin", "--evaluations", 22)
    each = found["functions"]["branin"]
    curves = {way: curve for way, (curve,) in each["curves"].items()}
    assert {len(curve) for curve in curves.values()} == {22}
    assert len({tuple(curve[:20]) for curve in curves.values()}) == 1
    for way, curve in curves.items():
        assert curve == sorted(curve, reverse=True)
        assert all(math.isfinite(regret) and regret >= 0 for regret in curve)
        assert each["regret"][way] == pytest.approx([curve[-1], 0], rel=1e-3)
    gap = curves[study.LEARNED][-1] - curves[study.PROCESS][-1]
    assert each["below"][study.PROCESS][0] == pytest.approx(gap, abs=1e-2)
    assert found["below"][study.PROCESS] == (gap < 0)
