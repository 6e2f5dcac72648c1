"""The page of `starts`."""

from collections.abc import Mapping
from typing import Any

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.starts.results import LEARNED, LENGTHS

STARTS = (
    "The rate of each layer over training, from each start, median over splits; dotted with a fifth of the steps. Good "
    "are lines that end at one place: then nobody needs to choose a start. Rates below 1e-4 stand at the edge."
)
TEMPERATURES = (
    "Against the temperature of the relaxed masks, the default of .1 marked; the star is a temperature that is learned "
    "with the weights. Predictions draw hard masks in all of them. Good are training rows that are worth the same "
    "under both kinds of masks: then training minimises what predictions will do."
)
NOTES = (
    "Numbers: 2 x 50 units, the weak prior, one level of noise that follows a tenth of the training rows; classes: 2 x "
    "128 units and a prior N(0, 1) on each weight. AdamW in one cycle of the learning rate, the same for weights and "
    "rates. The same split has the same initial weights under all starts and temperatures.",
    "Gain: log likelihood of the test part less that of the default (start .1, temperature .1), split by split, with "
    "its standard error over splits. Predictions average 50 hard masks; 'relaxed' and 'hard' are the NLL of training "
    "rows after training, each row under one mask of its own, over 20 masks of either kind.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Say how far starts and temperatures matter."""
    body: list[Figure | Table] = [Figure("starts", STARTS)]
    body += [_starts(name, found) for name, found in results.items()]
    body += [Figure("starts-temperatures", TEMPERATURES)]
    body += [_temperatures(name, found) for name, found in results.items()]
    return Page("Starts and temperatures of learned rates", _lead(results), body, NOTES)


def _lead(results: Mapping[str, Any]) -> str:
    spreads = ", ".join(f"{_spread(found['long']):.3f} on {name}" for name, found in results.items())
    most = {t: max(_hidden(found["temperatures"][t]) for found in results.values()) for t in ("0.1", "1")}
    return (
        f"Mean log likelihoods of the best and the worst start differ by {spreads}, nats a row. Under the hard masks "
        f"of a prediction, training rows lose up to {most['0.1']:.3f} nats on what training believed at t = .1, and "
        f"up to {most['1']:.3f} at t = 1."
    )


def _hidden(each: Mapping[str, Any]) -> float:
    """Nats that the relaxed masks of training hide."""
    return float(each["hard_nll"] - each["relaxed_nll"])


def _spread(starts: Mapping[str, Any]) -> float:
    gains = [each["gain"][0] for each in starts.values()]
    return float(max(gains) - min(gains))


def _cells(each: Mapping[str, Any], calibration: str) -> list[str]:
    gain, error = each["gain"]
    rates = ", ".join(f"{p:.3f}" if p >= 1e-3 else f"{p:.0e}" for p in each["rates"])
    return [f"{each['log_likelihood']:.3f}", f"{gain:+.3f} ({error:.3f})", f"{each[calibration]:.3f}", rates]


def _head(calibration: str) -> list[str]:
    return ["log likelihood", "gain (SE)", "ECE" if calibration == "ece" else "in 90 % intervals", "rates by layer"]


def _starts(name: str, found: Mapping[str, Any]) -> Table:
    calibration = found["calibration"]
    rows = [
        [f"{start}, {'all steps' if length == 'long' else 'a fifth'}", *_cells(each, calibration)]
        for length in LENGTHS
        for start, each in found[length].items()
    ]
    return Table(f"{name}, {found['rows']:,} training rows: starts", ["start", *_head(calibration)], rows)


def _temperatures(name: str, found: Mapping[str, Any]) -> Table:
    calibration = found["calibration"]
    rows = []
    for t, each in found["temperatures"].items():
        label = f"learned, {each['temperature']:.2g}" if t == LEARNED else t
        rows.append([label, *_cells(each, calibration), f"{each['relaxed_nll']:.3f}", f"{each['hard_nll']:.3f}"])
    head = ["temperature", *_head(calibration), "relaxed", "hard"]
    return Table(f"{name}: temperatures; NLL of training rows under relaxed and hard masks", head, rows, ours=[2])
