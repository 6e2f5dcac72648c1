"""What the page learns from points, in a browser and without the page around it, and what its captions say of it."""

import math
import re

import numpy as np
import pytest

from builders.browser import TRAINER, with_scripts

GRID = np.linspace(-3, 3, 121)
CLUMPS = [round(-2.6 + 0.2 * i, 2) for i in range(9)] + [round(0.6 + 0.2 * i, 2) for i in range(7)]

PLAY = """([settings, parts]) => { // settings, then [points, steps, settings to change] one after the other
  const trainer = new Gumdrop.trainer.Trainer(), frames = [];
  trainer.setSettings(settings);
  for (const [points, steps, change] of parts) {
    trainer.setPoints(points);
    if (change?.again) trainer.restart();
    else if (change) trainer.setSettings({ ...settings, ...change });
    trainer.train(steps);
    const frame = trainer.frame();
    frames.push({ ...frame, caption: Gumdrop.captions.caption(frame, frame.points, frame.settings) });
  }
  return frames; }"""


def wave(xs):
    return [[x, round(math.sin(2 * x) + 0.15 * math.sin(41 * x), 2)] for x in xs]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    with with_scripts(browser, tmp_path_factory.mktemp("trainer"), *TRAINER, "captions.js") as page:
        yield page
        assert page.witness.said == []


@pytest.fixture
def play(page):
    return lambda *parts, **settings: page.evaluate(PLAY, [settings, parts])


def near(low, high):
    return np.abs(GRID - (low + high) / 2) <= (high - low) / 2 + 1e-9


def openness(frame, xs, gap):
    """Mean epistemic standard deviation in the middle half of a gap over that at the points."""
    spread, quarter = np.array(frame["epistemic"]), (gap[1] - gap[0]) / 4
    at_points = np.mean([spread[np.abs(GRID - x).argmin()] for x in xs])
    return spread[near(gap[0] + quarter, gap[1] - quarter)].mean() / at_points


def test_it_learns_and_its_bands_shrink_where_points_are_added(play) -> None:
    before, after = play([wave(CLUMPS), 500], [wave([*CLUMPS, 2.0, 2.2, 2.4, 2.6, 2.8]), 500])
    wrong = np.abs(np.array(before["mean"]) - np.sin(2 * GRID))[near(-2.6, -1) | near(0.6, 1.8)]
    assert wrong.max() < 0.6
    assert (before["steps"], after["steps"]) == (500, 1000)
    right = near(2.2, 2.8)
    assert np.array(after["epistemic"])[right].mean() < 0.7 * np.array(before["epistemic"])[right].mean()


def test_more_data_lower_the_rates(play) -> None:
    few, many = play([wave(CLUMPS), 300], [wave(CLUMPS), 500, {"repeat": 40}])
    assert (few["numData"], many["numData"]) == (16, 640)
    assert min(few["rates"]) > 0.3
    assert max(many["rates"]) < 0.5 * min(few["rates"])


def test_captions_say_what_is_measured(play) -> None:
    """In a gap, dropout's functions spread little more than at points, an ensemble's more, and the exact ones most."""
    ratios = {}
    for model, steps in (("dropout", 600), ("ensemble", 150), ("process", 0)):
        (frame,) = play([wave(CLUMPS), steps], model=model)
        said = re.findall(r"([\d.]+) times", frame["caption"])
        ratios[model] = openness(frame, CLUMPS, (-1, 0.6))
        assert float(said[0]) == pytest.approx(ratios[model], rel=0.06)
        inside = np.array(frame["epistemic"])[near(-0.6, 0.2)].mean()
        assert float(re.search(r"SD ([\d.]+)", frame["caption"])[1]) == pytest.approx(inside, rel=0.06)
        assert ("stays narrow" in frame["caption"]) == (ratios[model] >= 3 and model == "ensemble")
        if model != "process":
            exact = openness({"epistemic": frame["exact"]}, CLUMPS, (-1, 0.6))
            assert float(said[1]) == pytest.approx(exact, rel=0.06)
        assert ("hardly opens" in frame["caption"] or "does not open" in frame["caption"]) == (ratios[model] < 3)
    assert 0.8 < ratios["dropout"] < 2
    assert ratios["dropout"] < ratios["ensemble"] < ratios["process"]
    assert ratios["process"] > 5


def test_no_rate_and_no_number_of_data_opens_the_gap(play) -> None:
    for settings in ({"rates": "fixed", "p": 0.5}, {"repeat": 30}):
        (frame,) = play([wave(CLUMPS), 300], **settings)
        assert 0.5 < openness(frame, CLUMPS, (-1, 0.6)) < 2, settings
        spread = np.array(frame["epistemic"])
        assert spread[-1] > 1.5 * spread[near(0.6, 1.8)].mean(), settings  # beyond the points it does


def test_a_caption_without_a_gap_says_how_wide_the_functions_spread(play) -> None:
    (frame,) = play([wave(np.linspace(-2.8, 2.8, 40).round(2).tolist()), 60])
    said = re.findall(r"by (\d\.\d+)", frame["caption"])
    spreads = [np.mean(frame[name]) for name in ("epistemic", "exact")]
    assert [float(text) for text in said] == pytest.approx(spreads, rel=0.06)
    assert frame["caption"].startswith("There are points everywhere.")


def test_without_points_it_shows_the_prior_whatever_was_there_before(play) -> None:
    settings = {"lengthscale": 2.0}
    alone, learned, none, flat = play(
        [[], 9], [wave(CLUMPS), 20], [[], 9, {"again": True}], [[], 9, {"lengthscale": 8.0}], **settings
    )
    assert alone["state"] == "prior"
    assert alone["steps"] == none["steps"] == 0
    assert none["epistemic"] == alone["epistemic"]
    assert np.mean(alone["epistemic"]) > 3 * np.mean(learned["epistemic"])
    assert np.mean(alone["epistemic"]) == pytest.approx(16 * np.mean(flat["epistemic"]), rel=0.3)  # of two weights
    assert alone["caption"].startswith("No points: functions of the prior N(0, 1/l²) on the weights. At l = 2 ")
    assert alone["rates"] == []


def test_an_example_is_the_same_whatever_was_there_before(play) -> None:
    (first,) = play([wave(CLUMPS), 30])
    other = play([wave([0.5, 1.5]), 12], [[], 4, {"again": True}], [wave(CLUMPS), 30, {"again": True}])[-1]
    assert other["mean"] == first["mean"]
    assert other["epistemic"] == first["epistemic"]
    (seeded,) = play([wave(CLUMPS), 30], seed=1)
    assert seeded["mean"] != first["mean"]


def test_rates_are_learned_fixed_or_off(play) -> None:
    fixed, learned, off = play(
        [wave(CLUMPS), 20, {"rates": "fixed", "p": 0.45}], [wave(CLUMPS), 20, {}], [wave(CLUMPS), 5, {"rates": "off"}]
    )
    assert fixed["rates"] == pytest.approx([0.45, 0.45])
    assert 0.45 not in [round(p, 6) for p in learned["rates"]]
    assert off["rates"] == []
    assert max(off["epistemic"]) == 0
    assert off["caption"].startswith("Without dropout there is one function.")


def test_the_process_is_exact(play) -> None:
    points = np.array(wave([-1.5, -0.4, -0.4, 1.1]))
    (frame,) = play([points.tolist(), 0, {"model": "process", "repeat": 3}])

    def kernel(a, b):
        return np.exp(-0.5 * ((a[:, None] - b) / 0.5) ** 2)

    gram, across = kernel(points[:, 0], points[:, 0]) + 0.04 / 3 * np.eye(4), kernel(points[:, 0], GRID)
    assert frame["mean"] == pytest.approx(across.T @ np.linalg.solve(gram, points[:, 1]), abs=1e-9)
    variance = 1 - (across * np.linalg.solve(gram, across)).sum(0)
    assert np.square(frame["epistemic"]) == pytest.approx(variance, abs=1e-9)
    assert frame["state"] == "exact"


def test_functions_of_the_process_have_its_mean_and_spread(page) -> None:
    found = page.evaluate(
        """([points, grid]) => { const { process, random } = Gumdrop, draw = random.normal(random.uniform(1));
             const normals = Array.from({length: 300}, () => Array.from(grid, draw));
             return process.posterior(points, grid, 0.04 / 30, normals); }""",
        [wave(CLUMPS), GRID.tolist()],
    )
    deviations = np.array(found["draws"]) - found["mean"]
    spread = np.array(found["epistemic"])
    assert np.abs(deviations.mean(0)).max() < 0.25
    assert deviations.std(0)[spread > 0.05] == pytest.approx(spread[spread > 0.05], rel=0.2)
    assert deviations.std(0)[spread < 0.05].max() < 0.06


def test_training_rests_when_nothing_has_changed_for_long(page) -> None:
    states = page.evaluate(
        """() => { const trainer = new Gumdrop.trainer.Trainer(), states = [trainer.state];
             trainer.setPoints([[0, 1]]); states.push(trainer.state);
             trainer.sinceChange = 4000; states.push(trainer.state);
             trainer.train(5); states.push(trainer.steps);
             trainer.setSettings({ temperature: 0.3 }); states.push(trainer.state); return states; }"""
    )
    assert states == ["prior", "training", "settled", 0, "training"]
