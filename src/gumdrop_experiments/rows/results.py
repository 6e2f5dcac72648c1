"""What the parts of `rows` say together."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from scipy.stats import t as student

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error

__all__ = ["FIXED", "GRID", "LABELS", "LEARNED", "OFF", "PRIORS", "VERDICTS", "regrets", "summary", "verdict"]

OFF, GRID, LEARNED = "off", "grid", "learned"
FIXED = {OFF: 0.0, "0.1": 0.1, "0.3": 0.3, "0.5": 0.5}
"""Rates of all layers that are fixed, by the name of the way."""
LABELS = {
    OFF: "no dropout",
    **{way: f"fixed at {way}" for way in FIXED if way != OFF},
    GRID: "best of these four, by held-out rows",
    LEARNED: "learned",
}
"""What pages call each way to a rate."""
PRIORS = {"prior": "with the prior", "without": "without a prior"}
"""Whether weights have the default prior of the objective."""
VERDICTS = ("ahead", "not told apart", "behind")
LEVEL = 0.95


def summary(parts: Sequence[Plain]) -> list[Plain]:
    """Gather the parts of one set, the fewest rows first, with the scores of all seeds side by side."""
    sizes = sorted({part["plan"]["rows"] for part in parts})
    return [_of_size([part for part in parts if part["plan"]["rows"] == size]) for size in sizes]


def regrets(sizes: Sequence[Plain]) -> Plain:
    """Nats a row that each way loses on the best way of a size, at worst and on average."""
    found: dict[str, Plain] = {}
    for prior in PRIORS:
        means = [{way: fmean(size["ways"][prior][way]["test"]["nll"]) for way in LABELS} for size in sizes]
        losses = {way: [nll[way] - min(nll.values()) for nll in means] for way in LABELS}
        found[prior] = {way: {"worst": max(lost), "mean": fmean(lost)} for way, lost in losses.items()}
    return found


def _of_size(parts: Sequence[Plain]) -> Plain:
    chosen = {prior: [_best(part["ways"][prior]) for part in parts] for prior in PRIORS}
    ways: dict[str, dict[str, Plain]] = {prior: {} for prior in PRIORS}
    for prior, names in chosen.items():
        for way in LABELS:
            taken = names if way == GRID else [way] * len(parts)
            runs = [part["ways"][prior][name] for part, name in zip(parts, taken, strict=True)]
            ways[prior][way] = _columns(runs)
    with_prior, without = (ways[prior] for prior in PRIORS)
    return {
        **parts[0]["plan"],
        "seeds": [part["seed"] for part in parts],
        "chosen": chosen,
        "ways": ways,
        "gains": {prior: _gains(of_prior) for prior, of_prior in ways.items()},
        "gains_of_prior": {
            way: interval(without[way]["test"]["nll"], with_prior[way]["test"]["nll"]) for way in LABELS
        },
    }


def _best(ways: Mapping[str, Plain]) -> str:
    """Take the fixed rate with the lowest held-out NLL."""
    return min(FIXED, key=lambda way: float(ways[way]["held_out_nll"]))


def _columns(records: Sequence[Mapping[str, Any]]) -> Plain:
    """Turn equal records, one for each seed, into one record of lists."""
    first = records[0]
    return {
        name: _columns([record[name] for record in records])
        if isinstance(first[name], dict)
        else [record[name] for record in records]
        for name in first
    }


def _gains(ways: Mapping[str, Plain]) -> Plain:
    """Nats a row that learned rates gain on each other way, for each kind of test rows."""
    tests = [name for name, scores in ways[LEARNED].items() if isinstance(scores, dict)]
    nll = {way: {test: ways[way][test]["nll"] for test in tests} for way in LABELS}
    return {
        test: {way: interval(nll[way][test], nll[LEARNED][test]) for way in LABELS if way != LEARNED} for test in tests
    }


def interval(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float | None]:
    """Mean of the differences, and half of the width of its 95 % interval over seeds; None for one seed."""
    mean, error = mean_and_error(a - b for a, b in zip(theirs, ours, strict=True))
    half = float(student.ppf((1 + LEVEL) / 2, len(ours) - 1)) * error if len(ours) > 1 else None
    return mean, half


def verdict(gain: tuple[float, float | None]) -> str:
    """Say whether the interval of a gain lies on one side of 0."""
    mean, half = gain
    return VERDICTS[1] if half is None or abs(mean) <= half else VERDICTS[0 if mean > 0 else 2]
