"""Stale results are listed with what made them stale, and those that do not say what made them."""

import json

import pytest

from builders.generated import ROOT

import stale  # isort: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Write results of known, of old and of unknown code."""
    modules = {"gumdrop.functional.masks": "a" * 12}
    for name, recorded in {"current": modules, "old": {"gumdrop.functional.masks": "b" * 12}}.items():
        code = {"commit": name * 4, "clean": True, "starts": ["line"], "modules": recorded}
        (tmp_path / f"{name}.json").write_text(json.dumps({"code": code}))
    (tmp_path / "unknown.json").write_text(json.dumps({"gumdrop": "0.1.0"}))
    monkeypatch.setattr(stale, "RESULTS", tmp_path)
    monkeypatch.setattr(stale, "module_hashes", lambda *starts: modules)


def test_each_file_says_what_has_become_of_its_code(results) -> None:
    *lines, last = stale.lines()
    assert lines == ["old: of oldoldoldold, changed since: gumdrop.functional.masks"]
    assert last == "1 files are of this code, 1 stale, 1 of unknown code"
    listed = stale.listed()
    assert "- **Of the code of this page** (1): `current` (currentcurre)." in listed
    assert "- **Stale** (1): `old` (oldoldoldold; gumdrop.functional.masks)." in listed
    assert "- **Unknown code** (1): `unknown`." in listed


def test_the_page_has_a_place_for_it() -> None:
    assert "<!-- stale -->" in (ROOT / "docs" / "experiments.md").read_text()
