"""The code behind a result: its commit, and a fingerprint that numbers depend on and words do not."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gumdrop_experiments.harness import origin
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.pages import Page


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Write a small house of modules; return its folder."""
    files = {
        "gumdrop/__init__.py": "from gumdrop.inner.deep import value\nfrom gumdrop.other import unused\n",
        "gumdrop/inner/__init__.py": "",
        "gumdrop/inner/deep.py": 'value = 1  # one\n\n"""Told."""\n',
        "gumdrop/other.py": "unused = 2\n",
        "gumdrop/views/__init__.py": "picture = 3\n",
        "gumdrop_experiments/sums/__init__.py": "DEFAULT = 5\n",
        "gumdrop_experiments/sums/study.py": (
            "import gumdrop as gd\nfrom gumdrop.views import picture\n\ndef study():\n    return gd.value, picture\n"
        ),
    }
    for name, code in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    monkeypatch.setattr(origin, "SOURCE", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    origin._tree.cache_clear()
    origin._hash_and_needs.cache_clear()


def hashes() -> dict[str, str]:
    _forget()
    return origin.of_experiment("sums")["modules"]


def test_a_fingerprint_follows_names_to_the_modules_that_define_them(house) -> None:
    assert list(hashes()) == ["gumdrop.inner.deep", "gumdrop_experiments.sums", "gumdrop_experiments.sums.study"]


@pytest.mark.parametrize(
    ("file", "code", "stale"),
    [
        ("gumdrop/inner/deep.py", "value = 2\n", ["gumdrop.inner.deep"]),
        ("gumdrop/inner/deep.py", '# one\nvalue = 1\n"""Otherwise told."""\n', []),
        ("gumdrop/other.py", "unused = 4\n", []),
        ("gumdrop/views/__init__.py", "picture = 4\n", []),
        ("gumdrop_experiments/sums/__init__.py", "DEFAULT = 6\n", ["gumdrop_experiments.sums"]),
        ("gumdrop/__init__.py", "from gumdrop.other import unused as value\n", ["gumdrop.inner.deep", "gumdrop.other"]),
    ],
)
def test_what_numbers_depend_on_makes_results_stale(house, file, code, stale) -> None:
    before = hashes()
    (house / file).write_text(code)
    assert origin.stale_by(before, hashes()) == stale


def test_code_without_a_checkout_has_the_version(house) -> None:
    found = origin.of_experiment("sums")
    assert (found["commit"], found["clean"]) == (origin.VERSION, None)
    assert len(found["fingerprint"]) == origin.DIGITS


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout_has_its_commit_and_whether_all_is_committed(house, monkeypatch) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=somebody", "-c", "user.email=nobody@example.com")
        return subprocess.check_output(["git", "-C", str(house), *who, *words], text=True).strip()

    code = house / "gumdrop" / "inner" / "deep.py"
    monkeypatch.setattr(origin, "__file__", str(code))
    git("init", "-q")
    assert origin.of_experiment("sums")["commit"] == origin.VERSION  # not in it: a package that is installed there
    git("add", ".")
    git("commit", "-q", "-m", "all")
    found = origin.of_experiment("sums")
    assert (found["commit"], found["clean"]) == (git("rev-parse", "HEAD"), True)
    code.write_text("value = 2\n")
    assert origin.of_experiment("sums")["clean"] is False


def test_real_experiments_depend_on_their_study_and_the_library() -> None:
    modules = origin.of_experiment("line")["modules"]
    assert {"gumdrop_experiments.line", "gumdrop_experiments.line.study", "gumdrop.functional.masks"} <= set(modules)
    assert not [name for name in modules if name.startswith(origin.NO_NUMBERS)]


def test_benchmarks_depend_on_the_scripts_that_they_import() -> None:
    modules = origin.module_hashes("gpu")
    assert {"gpu", "steps", "timing", "gumdrop.functional.masks"} <= set(modules)


def test_a_run_that_goes_on_under_other_code_names_both(tmp_path, monkeypatch) -> None:
    def code(name: str):
        return {"commit": name, "clean": True, "fingerprint": name, "starts": [], "modules": {}}

    def results(commit: str, *parts: str) -> dict:
        monkeypatch.setattr("gumdrop_experiments.harness.run.of_experiment", lambda experiment: code(commit))
        with Run("sums", RunOptions(out=tmp_path, resume=True), notify=said.append) as run:
            for part in parts:
                run.part(part, lambda: {"a": 1})
            run.finish({}, page)
        return json.loads((Path(tmp_path) / "results.json").read_text())

    said: list[str] = []
    page = Page("Sums", "They add up.", body=[])
    assert results("one", "a")["code"] == code("one")
    drawn_again = results("two", "a")
    assert (drawn_again["code"]["commit"], drawn_again["earlier_codes"]) == ("one", [])
    more = results("two", "a", "b")
    assert more["code"]["commit"] == "two"
    assert more["earlier_codes"] == [{"commit": "one", "fingerprint": "one"}]
    report = (tmp_path / "report.html").read_text()
    assert "commit <code>two</code>" in report
    assert "begun under other code (one)" in report
    assert any("the code has changed since this run began" in note for note in said)
