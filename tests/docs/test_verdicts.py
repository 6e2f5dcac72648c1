"""A verdict follows from an interval and a claim, and from nothing else."""

import tomllib

import pytest

from builders.generated import ROOT  # which lets the modules of docs/figures be imported

import quoted  # isort: skip
import verdicts  # isort: skip
from verdicts import CONTRADICTED, NOT_TESTED, REPRODUCED, UNDECIDED

FINDINGS = tomllib.loads((ROOT / "docs" / "figures" / "findings.toml").read_text())
RESULTS = {
    "results": {
        "ahead": [2.0, 2.1, 2.2],
        "behind": [1.0, 1.2, 1.1],
        "best": [3.0, 3.2, 3.1],
        "noisy": [-3.0, 2.0, 4.0],
        "one": [5.0],
        "sizes": [1.0, 2.1, 2.9, 4.0],
        "moments": [0.5, 0.1],
    }
}


@pytest.fixture(autouse=True)
def _results(monkeypatch):
    monkeypatch.setattr(quoted, "file", lambda name: RESULTS)


def judged(**finding):
    return verdicts._row({"source": "paper", "claim": "it is so", "page": "#there", "test": "{gain}", **finding})


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        ({"gain": ["f/ahead", "f/behind"]}, REPRODUCED),
        ({"gain": ["f/behind", "f/ahead"]}, CONTRADICTED),
        ({"gain": ["f/noisy", "f/behind"]}, UNDECIDED),
        ({"gain": ["f/ahead", ["f/behind", "f/best"]]}, CONTRADICTED),  # the best rival counts
        ({"gain": ["- f/behind", "- f/ahead"]}, REPRODUCED),
        ({"values": "f/one"}, UNDECIDED),  # a single seed
        ({"values": "f/ahead", "least": 1.5, "most": 2.5}, REPRODUCED),
        ({"values": "f/ahead", "least": 2.1, "most": 2.5}, UNDECIDED),
        ({"values": "f/ahead", "least": 3}, CONTRADICTED),
        ({"values": "f/ahead", "published": "2.1"}, REPRODUCED),
        ({"values": "f/ahead", "published": "2"}, REPRODUCED),  # as printed: 1.5 to 2.5
        ({"values": "f/ahead", "published": "2.9"}, CONTRADICTED),
        ({"values": "f/ahead over f/behind", "most": 2.5}, REPRODUCED),
        ({"values": "f/ahead over f/ahead", "log": True, "least": -0.1, "most": 0.1}, REPRODUCED),
        ({"slope": "f/sizes", "against": [1, 10, 100, 1000]}, REPRODUCED),
        ({"slope": "f/sizes", "against": [1, 10, 100, 1000], "most": 0}, CONTRADICTED),
        ({"moments": "f/moments", "count": 20}, REPRODUCED),
        ({"moments": "f/moments", "count": 2}, UNDECIDED),
        ({"undecided": "no fair test"}, UNDECIDED),
        ({"missing": "no data"}, NOT_TESTED),
        ({"parts": [{"values": "f/ahead"}, {"values": "f/behind"}]}, REPRODUCED),
        ({"parts": [{"values": "f/ahead"}, {"values": "f/noisy"}]}, UNDECIDED),
        ({"parts": [{"values": "f/noisy"}, {"values": "f/ahead", "most": 1}]}, CONTRADICTED),
    ],
)
def test_a_verdict_is_that_of_the_interval(finding, verdict) -> None:
    assert judged(**finding).verdict == verdict


def test_a_row_has_the_interval_and_what_it_is_over() -> None:
    row = judged(gain=["f/ahead", "f/behind"], scale=10, digits=1, over="splits")
    assert (row.test, row.over) == ("direction: +10.0 (7.5 to 12.5)", "3 splits")
    row = judged(test="{1}, {2}", parts=[{"values": "f/ahead", "least": 0}, {"values": "f/sizes"}])
    assert (row.test, row.over) == ("2.10 (1.85 to 2.35), 2.50 (0.48 to 4.52)", "3 to 4 seeds")
    assert judged(undecided="no fair test").test == "{gain}; no fair test"


@pytest.mark.parametrize("finding", [{}, {"verdict": "reproduced"}, {"gain": ["f/a", "f/b"], "missing": "data"}])
def test_a_verdict_is_not_typed(finding) -> None:
    with pytest.raises(ValueError, match="a finding must have one of gain, values"):
        judged(**finding)


def test_no_finding_has_a_verdict_of_its_own() -> None:
    for finding in [*FINDINGS["findings"], *FINDINGS["ours"]]:
        assert sum(kind in finding for kind in verdicts.KINDS) == 1, finding["claim"]
        assert "verdict" not in finding
    assert sum("explainer" in finding["source"] for finding in FINDINGS["findings"]) >= 12
