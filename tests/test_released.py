"""Models of released versions predict as they did: files of each version are kept, and none is written anew."""

import json

import pytest

from gumdrop.tables.results import read_results

from builders import released
from builders.golden import leaves

VERSIONS = sorted(path for path in released.GOLDEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("place", VERSIONS, ids=lambda place: place.name)
def test_stored_models_predict_as_they_did(place) -> None:
    stored = json.loads((place / released.EXPECTED).read_text(encoding="utf-8"))
    found = released.said(place)
    assert found.keys() == stored.keys()
    for name, values in stored.items():
        for now, then in zip(leaves(found[name]), leaves(values), strict=True):
            assert now == (then if isinstance(then, str | None) else pytest.approx(then, rel=1e-3, abs=1e-4)), name


@pytest.mark.parametrize("place", VERSIONS, ids=lambda place: place.name)
def test_stored_results_are_read(place) -> None:
    assert read_results(place / released.WITH_RESULTS).table.train_rows == 64


def test_this_version_has_its_files() -> None:
    assert released.VERSION in {place.name for place in VERSIONS}, "write them: see builders/released.py"
