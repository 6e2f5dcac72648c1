"""Runs of `gumdrop reproduce`, through the command line, and what they leave."""

import json
from pathlib import Path
from typing import Any

import torch

from gumdrop.cli import main


def reproduce(name: str, out: Path, *words: object, data: Path | None = None) -> int:
    """Run an experiment, on data in a folder; return the status."""
    folder = [] if data is None else ["--data", str(data)]
    return main(["reproduce", name, "--out", str(out), *folder, *map(str, words)])


def results_of(out: Path) -> Any:
    """Read what a run found."""
    return json.loads((out / "results.json").read_text())["results"]


def figures_of(out: Path) -> list[str]:
    """Read which figures a run drew, in their order on its page."""
    return json.loads((out / "results.json").read_text())["figures"]


def reproduced(name: str, out: Path, *words: object, data: Path | None = None) -> Any:
    """Run an experiment to its end, and check what all have in common; return what it found."""
    before = torch.get_rng_state()
    assert reproduce(name, out, *words, data=data) == 0
    assert torch.equal(torch.get_rng_state(), before), "the random numbers of torch are its own"
    figures = figures_of(out)
    assert figures
    page = (out / "report.html").read_text()
    for figure in figures:
        assert figure.startswith(name)
        assert (out / figure).stat().st_size > 2000
        assert figure.removesuffix(".png") in page
    assert not list((out / "parts").glob("*.checkpoint"))
    return results_of(out)
