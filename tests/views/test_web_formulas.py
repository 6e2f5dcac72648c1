"""The formulas of the interactive page: those of the library, and the same in the browser, by way of a golden file.

`tests/golden/web.json` holds inputs with the values that Python gives. One test computes it anew and compares, the
other compares the browser with it. `GUMDROP_WRITE_GOLDEN=1 pytest tests/views/test_web_formulas.py` writes it.
"""

import itertools
import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from gumdrop import functional
from gumdrop.functional import masks

from builders import reference
from builders.browser import WEB, WIDGET
from builders.golden import assert_stored

GOLDEN = Path(__file__).parents[1] / "golden" / "web.json"
TERMS = {"stylised": reference.stylised_terms, "library": reference.library_terms}
SIZES = [*itertools.product((10, 200, 10000), (50, 500, 5000)), (37, 1230)]
RATES = (0.01, 0.137, 0.5, 0.72, 0.99)
NOISE = (0.003, 0.21, 0.5, 0.68, 0.96)


def slope(objective, p, num_data, num_units):
    """Central difference, whose error is about 1e-9 of the curvature."""
    width = 1e-5 * min(p, 1 - p)
    ends = (sum(TERMS[objective](p + sign * width, num_data, num_units)) for sign in (1, -1))
    return (next(ends) - next(ends)) / (2 * width)


def optimum(objective, num_data, num_units):
    """Golden-section search for the least loss in the frame."""
    low, high, ratio = 0.01, 0.99, (math.sqrt(5) - 1) / 2
    while high - low > 1e-9:
        inner = (high - ratio * (high - low), low + ratio * (high - low))
        left, right = (sum(TERMS[objective](p, num_data, num_units)) for p in inner)
        low, high = (low, inner[1]) if left < right else (inner[0], high)
    return (low + high) / 2


def compute():
    landscape = []
    for objective, (num_data, num_units) in itertools.product(TERMS, SIZES):
        sizes = num_data, num_units
        points = [{"p": p, "terms": TERMS[objective](p, *sizes), "slope": slope(objective, p, *sizes)} for p in RATES]
        facts = {"objective": objective, "N": num_data, "K": num_units, "optimum": optimum(objective, *sizes)}
        landscape.append(facts | {"points": points})
    masks = [
        {"p": p, "temperature": t, "noise": list(NOISE), "keep": soft_keep(p, t), "hard": hard_keep(p)}
        for p in (0.05, 0.3, 0.5, 0.9)
        for t in (0.02, 0.1, 2 / 3, 2.0)
    ]
    return {"landscape": landscape, "masks": masks}


def p_logit(p):
    return torch.tensor(p, dtype=torch.float64).logit()


def soft_keep(p, temperature):
    noise = torch.tensor(NOISE, dtype=torch.float64)
    return masks.soft_keep(p_logit(p), noise, temperature=temperature).tolist()


def hard_keep(p):
    factors = masks.dropout_scale(p_logit(p), torch.tensor(NOISE, dtype=torch.float64), hard=True)
    return (factors > 0).int().tolist()


def test_the_golden_file_is_what_python_computes() -> None:
    assert_stored(GOLDEN, compute(), rel=1e-9, abs=1e-7)


@pytest.mark.parametrize(("num_data", "num_units"), SIZES)
def test_the_true_terms_are_those_of_the_library(num_data: int, num_units: int) -> None:
    for p in RATES:
        kl = functional.dropout_kl(
            p_logit(p), torch.tensor(0.25, dtype=torch.float64), num_units, precision=float(num_units)
        )
        _, weights, entropy = reference.library_terms(p, num_data, num_units)
        assert weights + entropy == pytest.approx(float(kl) / num_data, rel=1e-12)


def test_the_true_likelihood_is_the_expected_one_over_masks() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, p = torch.full((100,), 0.05, dtype=torch.float64), 0.3  # its squares sum to 1/4
    x = torch.randn(4000, 100, generator=generator, dtype=torch.float64)
    masked = functional.concrete_dropout(x, p_logit(p), hard=True, generator=generator)
    excess = ((masked - x) @ weight).square().mean() / 2  # of the nll, for noise variance 1
    assert float(excess) == pytest.approx(reference.library_terms(p, 10, 50)[0], rel=0.05)


def test_the_browser_computes_the_same(page_of) -> None:
    page = page_of(*WIDGET, "mask.js")
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = page.evaluate(
        """({landscape, masks}) => ({
          landscape: landscape.map(({objective, N, K, points}) => ({
            optimum: Gumdrop.landscape.optimum(objective, N, K),
            points: points.map(({p}) => ({
              terms: Object.values(Gumdrop.landscape.objectives[objective](p, N, K)).map((term) => term.value),
              slope: Gumdrop.landscape.slope(objective, p, N, K),
            })),
          })),
          masks: masks.map(({p, temperature, noise}) => ({
            keep: noise.map((u) => Gumdrop.mask.softKeep(p, u, temperature)),
            hard: noise.map((u) => Gumdrop.mask.hardKeep(p, u)),
          })),
        })""",
        stored,
    )
    for case, other in zip(stored["landscape"], found["landscape"], strict=True):
        assert other["optimum"] == pytest.approx(case["optimum"], abs=1e-4)  # a search by values is this coarse
        for point, own in zip(case["points"], other["points"], strict=True):
            assert own["terms"] == pytest.approx(point["terms"], rel=1e-12)
            assert own["slope"] == pytest.approx(point["slope"], rel=1e-6, abs=1e-6 * case["K"] / case["N"])
    for case, other in zip(stored["masks"], found["masks"], strict=True):
        assert other["keep"] == pytest.approx(case["keep"], rel=1e-9, abs=1e-15)
        assert other["hard"] == case["hard"]


def test_curvature_is_the_slope_of_the_slope(page_of) -> None:
    page = page_of(*WIDGET)
    ratios = page.evaluate(
        """() => ["stylised", "library"].flatMap((o) => [0.02, 0.4, 0.9].flatMap((p) => [[10, 5000], [9000, 60]].map(
          ([N, K]) => {
            const G = Gumdrop.landscape, h = 1e-6;
            const numeric = (G.slope(o, p + h, N, K) - G.slope(o, p - h, N, K)) / (2 * h);
            const terms = Object.values(G.objectives[o](p, N, K));
            return terms.reduce((sum, term) => sum + term.curvature, 0) / numeric;
          })))"""
    )
    assert ratios == pytest.approx([1] * 12, rel=1e-5)


def test_the_names_of_the_specification_are_those_of_its_sketch(page_of) -> None:
    page = page_of(*WIDGET)
    found = page.evaluate(
        """() => { const {cdObjective, cdGradient, cdCoefficients, argmin} = MLMath;
             const at = [0.3, ...cdCoefficients(200, 500)];
             return [cdObjective(...at), cdGradient(...at), argmin([3, 1, 2, 1])]; }"""
    )
    assert found == pytest.approx(
        [sum(reference.stylised_terms(0.3, 200, 500)), slope("stylised", 0.3, 200, 500), 1], abs=1e-4
    )


NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_functions_of_the_specification_without_a_browser() -> None:
    """L(p) = cLik p + cW (1-p)^2 - cE H(p) with coefficients of their own, and a descent in steps of 42 ms."""
    script = f"""
      globalThis.self = globalThis;
      require({json.dumps(str(WEB / "landscape-terms.js"))});
      const {{ cdObjective, cdGradient, cdCoefficients }} = MLMath;
      const {{ placeAt, descent, optimum, STEP_MS }} = Gumdrop.landscape;
      const places = [0, 21, 42, 43, 125, 126, 1e9, Infinity].map((ms) => placeAt([0.5, 0.4, 0.3, 0.2], ms));
      const path = descent("library", 0.9, 200, 500), end = path.at(-1) - optimum("library", 200, 500);
      const at = [0.3, 0.7, 1.9, 2.3], h = 1e-6, around = [at[0] + h, at[0] - h];
      const [up, down] = around.map((p) => cdObjective(p, ...at.slice(1)));
      const slope = (up - down) / (2 * h);
      const sketch = [cdObjective(...at), cdGradient(...at) / slope, ...cdCoefficients(200, 500), STEP_MS, end + 1];
      console.log(JSON.stringify([...sketch, places]));
    """
    *numbers, places = json.loads(subprocess.check_output([NODE, "-e", script], text=True))
    entropy = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    assert numbers == pytest.approx([0.7 * 0.3 + 1.9 * 0.7**2 - 2.3 * entropy, 1, 1 / 200, 0.8, 2.5, 42, 1], rel=1e-4)
    assert places == pytest.approx([0.5, 0.45, 0.4, 0.4 - 0.1 / 42, 0.2 + 0.1 / 42, 0.2, 0.2, 0.2], abs=1e-9)
