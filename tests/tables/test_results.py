"""The record between a fit and its page: what is written is read again, and what is damaged is named."""

import copy
import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gumdrop.tables import TableError
from gumdrop.tables.plain import SPARSE, FieldError, plain, record
from gumdrop.tables.results import FitResults, Gain, read_results, write_results
from gumdrop.views.report import render

from builders.results import classification_results, regression_results

KINDS = {"regression": regression_results, "classification": classification_results}
DAMAGE = (5, -1.5, None, "x", [], {}, True, [None], 1e999)


@dataclass(frozen=True)
class Part:
    number: float
    words: list[str]
    named: dict[str, Gain]
    count: int | None = field(default=None, metadata=SPARSE)
    of_class: str | None = field(default=None, metadata={"key": "class"})


finite = st.floats(allow_nan=False, allow_infinity=False)
gains = st.builds(Gain, finite, finite)
parts = st.builds(
    Part,
    finite,
    st.lists(st.text()),
    st.dictionaries(st.text(), gains),
    st.none() | st.integers(-(2**62), 2**62),
    st.none() | st.text(),
)


@settings(max_examples=40)
@given(parts)
def test_a_record_is_read_as_it_was_written(part) -> None:
    data = json.loads(json.dumps(plain(part)))
    assert ("count" in data) == (part.count is not None)
    assert "class" in data
    assert record(Part, data) == part


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"number": "3"}, "`number` must be a finite number, got '3'"),
        ({"number": True}, "`number` must be a finite number, got True"),
        ({"words": ["a", 1]}, r"`words\[1\]` must be a text, got 1"),
        ({"words": {}}, "`words` must be a list, got a dict"),
        ({"named": {"a": 3}}, "`named.a` must be an object, got 3"),
        ({"named": {"a": {"mean": 1}}}, "it lacks named.a.se"),
        ({"count": 1.5}, "`count` must be a whole number, got 1.5"),
    ],
)
def test_what_a_record_cannot_hold_is_named(change, words) -> None:
    with pytest.raises(FieldError, match=words):
        record(Part, {"number": 1, "words": [], "named": {}} | change)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_read_as_they_were_written(kind, tmp_path) -> None:
    results = FitResults.from_json(KINDS[kind]())
    write_results(results, tmp_path)
    assert read_results(tmp_path) == results
    assert json.loads((tmp_path / "results.json").read_text()) == results.to_json()


def paths(data, start=()):
    """Where something stands in plain data; of long lists the first."""
    yield start
    inner = data.items() if isinstance(data, dict) else enumerate(data[:1]) if isinstance(data, list) else ()
    for name, each in inner:
        yield from paths(each, (*start, name))


@pytest.mark.parametrize("kind", KINDS)
def test_damage_anywhere_is_told_or_does_no_harm(kind) -> None:
    whole = KINDS[kind](12, epochs=2)
    places = list(paths(whole))[1:]
    rendered = random.Random(0).sample([(place, value) for place in places for value in DAMAGE], 3)
    for place in places:
        for value in DAMAGE:
            damaged = copy.deepcopy(whole)
            part = damaged
            for name in place[:-1]:
                part = part[name]
            part[place[-1]] = value
            try:
                results = FitResults.from_json(damaged)
                if (place, value) in rendered:
                    render(results)
            except TableError as error:
                assert "results.json" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"coverage": "much"}}, "`settings.coverage` must be a positive number, got 'much'"),
        ({"task": "classification"}, "`test` has not the columns of a classification"),
        ({"scores": [{"name": "a", "ours": True, "values": {"coverage": 2}}]}, "a share from 0 to 1 as coverage"),
        ({"scores": []}, "`scores` must hold this model once"),
        ({"ranking": {"class": "a", "auroc": 1.5, "rows": 3, "other_rows": 3}}, "`ranking` must have an auroc"),
        ({"paired": [{"name": "a", "gains": {}}]}, "`paired` must have a gain in log likelihood"),
    ],
)
def test_numbers_that_cannot_be_are_refused(change, words) -> None:
    with pytest.raises(TableError, match=f"results.json is damaged: .*{words}"):
        FitResults.from_json(regression_results() | change)


def test_scores_tell_which_way_they_are_better_and_older_ones_are_known_by_name() -> None:
    older = FitResults.from_json(regression_results())
    assert [older.better(name) for name in older.scores[0].values] == ["lower", "higher", "target", "lower"]
    assert older.better("bias") is None
    told = FitResults.from_json(regression_results() | {"score_directions": {"bias": "lower", "RMSE": "higher"}})
    assert (told.better("bias"), told.better("RMSE")) == ("lower", "higher")
