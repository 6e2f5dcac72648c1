"""What the parts of `rows` say together."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from scipy.stats import t as student

from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error

OFF, GRID, LEARNED = "off", "grid", "learned"
FIXED = {OFF: 0.0, "0.1": 0.1, "0.3": 0.3, "0.5": 0.5}
"""Rates of all layers that are fixed, by the name of the way."""
LABELS = {
    OFF: "no dropout",
    **{way: f"fixed at {way}" for way in FIXED if way != OFF},
    GRID: "best of these four, by held-out rows",
    LEARNED: "learned",
}
PRIORS = {"prior": "with the prior", "without": "without a prior"}
"""Whether weights have the default prior of the objective."""
VERDICTS = ("ahead", "not told apart", "behind")
LEVEL = 0.95

Gain = tuple[float, float | None]


def summary(parts: Sequence[Plain]) -> list[Plain]:
    """Gather the parts of one set, the fewest rows first, with the scores of all seeds side by side."""
    sizes = sorted({part["plan"]["rows"] for part in parts})
    return [_of_size([part for part in parts if part["plan"]["rows"] == size]) for size in sizes]


def regrets(sizes: Sequence[Plain]) -> Plain:
    """Nats a row of each way below the best of a size, at worst and on average."""
    regret: Plain = {}
    for prior in PRIORS:
        means = [{way: fmean(size["ways"][prior][way]["test"]["nll"]) for way in LABELS} for size in sizes]
        losses = {way: [nll[way] - min(nll.values()) for nll in means] for way in LABELS}
        regret[prior] = {way: {"worst": max(lost), "mean": fmean(lost)} for way, lost in losses.items()}
    return regret


def protocol_summary(label: str, plan: Plain, runs: Sequence[Plain]) -> Plain:
    """Gather the test scores of all ways under one protocol, and what learned rates gain on the grid."""
    grid = [run[min(FIXED, key=lambda way: float(run[way]["held_out_nll"]))] for run in runs]
    records = {way: grid if way == GRID else [run[way] for run in runs] for way in LABELS}
    nll = {way: [record["test"]["nll"] for record in its] for way, its in records.items()}
    return {"label": label, **plan, "nll": nll, "gain": interval(nll[GRID], nll[LEARNED])}


def _of_size(parts: Sequence[Plain]) -> Plain:
    chosen: dict[str, list[str]] = {}
    ways: dict[str, Plain] = {}
    for prior in PRIORS:
        runs = [part["ways"][prior] for part in parts]
        chosen[prior] = [min(FIXED, key=lambda way: float(run[way]["held_out_nll"])) for run in runs]
        grid = [run[way] for run, way in zip(runs, chosen[prior], strict=True)]
        ways[prior] = {way: _columns(grid if way == GRID else [run[way] for run in runs]) for way in LABELS}
    nll = {prior: {way: scores["test"]["nll"] for way, scores in ways[prior].items()} for prior in PRIORS}
    return {
        **parts[0]["plan"],
        "seeds": [part["seed"] for part in parts],
        "chosen": chosen,
        "ways": ways,
        "gains": {prior: _gains(ways[prior]) for prior in PRIORS},
        "gains_of_prior": {way: interval(nll["without"][way], nll["prior"][way]) for way in LABELS},
    }


def _columns(records: Sequence[Plain]) -> Plain:
    """Turn equal records, one for each seed, into one record of lists."""
    columns = {name: [record[name] for record in records] for name in records[0]}
    return {name: _columns(values) if isinstance(values[0], dict) else values for name, values in columns.items()}


def _gains(ways: Mapping[str, Plain]) -> Plain:
    """Nats a row that learned rates gain on each other way, for each kind of test rows."""
    tests = {name: scores["nll"] for name, scores in ways[LEARNED].items() if isinstance(scores, dict)}
    others = [way for way in LABELS if way != LEARNED]
    return {test: {way: interval(ways[way][test]["nll"], ours) for way in others} for test, ours in tests.items()}


def interval(theirs: Sequence[float], ours: Sequence[float]) -> Gain:
    """Mean of the differences, and half of the width of its 95 % interval over seeds; None for one seed."""
    mean, error = mean_and_error(a - b for a, b in zip(theirs, ours, strict=True))
    return mean, float(student.ppf((1 + LEVEL) / 2, len(ours) - 1)) * error if len(ours) > 1 else None


def verdict(gain: Gain) -> str:
    """Say whether the interval of a gain lies on one side of 0."""
    mean, half = gain
    return VERDICTS[1] if half is None or abs(mean) <= half else VERDICTS[0 if mean > 0 else 2]
