"""Figures that are drawn again from results show what they are to show."""

import json

import numpy as np
import pytest
from matplotlib.colors import same_color

from gumdrop.views import plots
from gumdrop_experiments.cartpole import page as cartpole
from gumdrop_experiments.co2 import page as co2
from gumdrop_experiments.line import page as line
from gumdrop_experiments.mnist import page as mnist
from gumdrop_experiments.pages import axes as house
from gumdrop_experiments.rates import page as rates
from gumdrop_experiments.uci import page as uci

from builders.generated import ROOT

import experiment_pictures  # isort: skip


def results(name: str):
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())["results"]


@pytest.mark.parametrize("kind", ["scripts", "fixed"])
def test_the_panels_of_co2_are_those_of_the_tutorial_and_whole(kind) -> None:
    found = results("co2")
    panels = co2._panels(found, kind).axes
    titles = [ax.get_title(loc="left").split(",")[0] for ax in panels]
    assert titles == ["weight averaging", "GP", "drawn functions", "drawn functions"]
    assert [word for ax in panels for word in ("tanh", "ReLU", "sampled") if word in ax.get_title(loc="left")] == [
        "tanh",
        "sampled",
        "ReLU",
        "tanh",
    ]
    for network in co2._of_kind(found, kind):
        spread = np.hypot(network["curve"]["epistemic"], network["noise"])
        assert panels[0].get_ylim()[1] >= max(np.array(network["curve"]["mean"]) + 2 * spread)


def test_bands_of_co2_do_not_mix_their_colours() -> None:
    ax = co2._panels(results("co2"), "scripts").axes[2]
    at_the_end = [
        (min(y), max(y))
        for band in ax.collections
        for y in [band.get_paths()[0].vertices[np.isclose(band.get_paths()[0].vertices[:, 0], 3.5, atol=0.02), 1]]
        if same_color(band.get_facecolor()[0][:3], plots.BLUE)
    ]
    (inner, outer), (low, high) = sorted(at_the_end, reverse=True)
    assert outer > inner > high > low


def test_the_line_shows_one_thing() -> None:
    found = results("line")
    drawn = line._uncertainty(found["networks"]).axes[1]
    assert len(drawn.get_lines()) == 4


def test_what_is_far_is_written_in_full() -> None:
    _, ax = house.subplots(size=(3, 3))
    house.dots(
        ax, {"far": (-14965689.0, 1.0), "near": (-3.0, 0.1), "low": (-35.2, 1)}, (-4, -2), ".3g", look=lambda _: {}
    )
    assert [text.get_text() for text in ax.texts] == ["← -35.2", "← -14,965,689"]


def test_a_way_is_not_held_against_itself() -> None:
    found = results("rates-arms")
    ax = rates._gains(found["arms"], found["labels"]).axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert "learned, by the ELBO" not in names
    assert len(names) == len(found["arms"]["mean"]) - 1


def test_what_is_clipped_has_an_arrow_and_its_value() -> None:
    said = [text.get_text() for ax in uci._cost(results("uci")).axes for text in ax.texts]
    assert "↓ -32.8" in said
    outside = [text for ax in uci._coverage(results("uci")).axes for text in ax.texts]
    assert outside
    assert all(text.xy[0] < 1 and text.get_ha() == "right" for text in outside)


def test_one_size_is_drawn_over_training_alone() -> None:
    (ax,) = mnist._rates(results("mnist-long")).axes
    assert len(ax.get_lines()) == 4 * 3  # layers and seeds


def test_the_floor_of_an_axis_is_said() -> None:
    ax = cartpole._uncertainty(results("cartpole")["arms"]).axes[0]
    assert [text.get_text() for text in ax.texts] == ["0.001 or less"]


def test_lenet_is_shown_with_three_seeds_alone() -> None:
    networks = experiment_pictures.results_of("regularisation")["networks"]
    assert {name.split("-")[0] for name in networks} == {"perceptron"}
