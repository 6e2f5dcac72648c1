"""What a live session accepts, and what it learns."""

import json
import math

import pytest
import torch

from gumdrop.views.explore.messages import MAX_POINTS, MessageError, Pause, Points, Restart, Settings, parse
from gumdrop.views.explore.recording import GAP, MORE, STORY, record
from gumdrop.views.explore.session import SETTLED, Session

SETTINGS = {"type": "settings", "weight": 5, "lengthscale": 0.5, "temperature": 0.1, "learned": True, "p": 0.2}


def wave(*xs):
    return Points(tuple((x, math.sin(2 * x)) for x in xs))


def test_every_kind_of_message_is_read() -> None:
    assert parse('{"type": "points", "points": []}') == Points(())
    assert parse(json.dumps(SETTINGS)) == Settings(weight=5.0, lengthscale=0.5, temperature=0.1, learned=True, p=0.2)
    assert parse('{"type": "restart"}') == Restart()
    assert parse(b'{"type": "pause", "paused": true}') == Pause(paused=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be JSON"),
        ("\x00garbage", "must be JSON"),
        (b"\xff\xfe\xfd", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[1, 2]", "must be an object, got list"),
        ("{}", "`type` must be one of points, settings, restart, pause, got None"),
        ('{"type": ["points"]}', "`type` must be one of"),
        ('{"type": "points"}', "must have points, got"),
        ('{"type": "restart", "now": 1}', "must have nothing else"),
        ('{"type": "points", "points": 3}', "at most 200 pairs, got int"),
        ('{"type": "points", "points": [[1, 2, 3]]}', "must be a pair of numbers"),
        ('{"type": "points", "points": [1]}', "must be a pair of numbers"),
        ('{"type": "points", "points": [[0, 3.1]]}', "`y` must lie between -3 and 3, got 3.1"),
        ('{"type": "points", "points": [["0", 1]]}', "`x` must be a number, got '0'"),
        ('{"type": "points", "points": [[NaN, 1]]}', "`x` must lie between -3 and 3, got nan"),
        ('{"type": "points", "points": [[1e999, 1]]}', "`x` must lie between -3 and 3, got inf"),
        ('{"type": "points", "points": [[true, 1]]}', "`x` must be a number, got True"),
        (json.dumps({"type": "points", "points": [[0, 0]] * (MAX_POINTS + 1)}), "at most 200 pairs, got 201"),
        (json.dumps({"type": "points", "points": [[10**400, 0]]}), "`x` must lie between -3 and 3, got 1000"),
        (json.dumps(SETTINGS | {"temperature": 0}), "`temperature` must lie between 0.02 and 2, got 0"),
        (json.dumps(SETTINGS | {"weight": None}), "`weight` must be a number, got None"),
        (json.dumps(SETTINGS | {"learned": 1}), "`learned` must be true or false, got 1"),
        (json.dumps(SETTINGS | {"extra": 1}), "must have learned, lengthscale, p, temperature, weight"),
        ('{"type": "pause", "paused": "yes"}', "`paused` must be true or false"),
    ],
)
def test_nothing_else_is(text, message) -> None:
    with pytest.raises(MessageError, match=message):
        parse(text)


def test_a_session_learns_and_its_bands_shrink_where_points_are_added() -> None:
    """Epistemic standard deviation to the right of all points, before and after there are points."""
    session = Session()
    session.apply(wave(*GAP))
    session.train(1200)
    before = session.frame()
    session.apply(wave(*MORE))
    session.train(1200)
    after = session.frame()
    right, left = slice(101, 117), slice(15, 40)  # x from 2 to 2.8 and from -2.25 to -1.05

    def width(frame, part):
        return sum(frame["epistemic"][part]) / len(frame["epistemic"][part])

    assert width(after, right) < 0.6 * width(before, right)
    assert width(after, right) / width(before, right) < 0.8 * width(after, left) / width(before, left)
    assert before["losses"]["nll"] < 0
    error = [abs(m - math.sin(2 * x)) for m, x in zip(after["mean"], session.grid[:, 0].tolist(), strict=True)]
    assert max(error[12:109]) < 0.5


def test_frames_hold_what_the_page_draws() -> None:
    session = Session(grid=31)
    session.apply(wave(0.0, 1.0))
    session.train(5)
    frame = json.loads(json.dumps(session.frame(), allow_nan=False))
    assert {len(frame[name]) for name in ("mean", "epistemic", "aleatoric")} == {31}
    assert [len(draw) for draw in frame["draws"]] == [31] * 8
    assert list(frame["rates"]) == ["2", "4"]
    assert frame["steps"] == 5
    assert min(frame["aleatoric"]) > 0


def test_more_weight_lowers_the_rates() -> None:
    rates = []
    for weight in (1.0, 50.0):
        session = Session()
        session.apply(wave(*MORE))
        session.apply(Settings(weight=weight))
        session.train(600)
        rates.append(max(session.frame()["rates"].values()))
    assert rates[1] < 0.5 * rates[0]


def test_fixed_rates_stay_and_learned_ones_go_on_from_there() -> None:
    session = Session()
    session.apply(wave(*GAP))
    session.apply(Settings(learned=False, p=0.45))
    session.train(50)
    assert list(session.frame()["rates"].values()) == [0.45, 0.45]
    session.apply(Settings(learned=True))
    session.train(50)
    assert 0.45 not in session.frame()["rates"].values()


def test_temperature_reaches_the_masks() -> None:
    session = Session()
    session.apply(Settings(temperature=1.5))
    assert {site.temperature for site in session._sites()} == {1.5}


def test_states_follow_what_was_asked() -> None:
    session = Session()
    assert session.state == "empty"
    session.advance(10.0)  # nothing to train: it returns at once
    assert session.steps == 0
    session.apply(wave(0.5))
    assert session.state == "training"
    session.apply(Pause(paused=True))
    assert session.state == "paused"
    session.advance(10.0)
    assert session.steps == 0
    session.apply(Pause(paused=False))
    session.train(3)
    session._since_change = SETTLED
    assert session.state == "settled"
    session.apply(Settings())
    assert session.state == "training"
    before = session.frame()["mean"]
    session.apply(Restart())
    assert session.steps == 0
    assert session.frame()["mean"] != before
    assert session.points == ((0.5, math.sin(1.0)),)


def test_same_requests_same_frames_and_the_global_random_state_is_left_alone() -> None:
    frames = []
    state = torch.get_rng_state()
    for interleaved in (False, True):
        session, other = Session(), Session(seed=7)
        session.apply(wave(*GAP))
        other.apply(wave(0.1, 0.2))
        for _ in range(4):
            session.train(5)
            if interleaved:
                other.train(3)
                other.frame()
        frames.append(session.frame())
    assert frames[0] == frames[1]
    assert torch.equal(state, torch.get_rng_state())


def test_a_recording_is_a_session_in_small_numbers() -> None:
    recording = json.loads(json.dumps(record(STORY[:2], steps=(0, 4)), allow_nan=False))
    assert [len(chapter["frames"]) for chapter in recording["chapters"]] == [2, 2]
    assert recording["chapters"][0]["points"] == recording["chapters"][1]["points"][: len(GAP)]
    session = Session(grid=61)
    session.apply(STORY[0].settings)
    session.apply(Points(tuple(map(tuple, recording["chapters"][0]["points"]))))
    session.train(4)
    mean = recording["chapters"][0]["frames"][1]["mean"]
    assert [value * recording["unit"] for value in mean] == pytest.approx(session.frame()["mean"], abs=0.0051)
