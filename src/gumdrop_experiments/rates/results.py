"""Regret: what a rate loses on the best rate of a table."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error

OFF, GRID, ELBO, HELD_OUT = "off", "grid", "elbo", "held-out"
FIXED = (0.02, 0.05, 0.1, 0.2, 0.5)
LABELS = {
    OFF: "no dropout",
    **{str(p): f"fixed at {p:g}" for p in FIXED},
    GRID: "grid of these, by held-out rows",
    ELBO: "learned, by the ELBO",
    HELD_OUT: "learned, strength by held-out rows",
}
SIZES = ("ensemble", "single")
"""What is scored of each way."""
ARM_LABELS = {
    "sites": "learned, a strength for each layer",
    "front": "fixed as 4:2:1, most at the inputs",
    "hidden": "fixed as 0:2:1, none at the inputs",
    "pool": "ten networks of a pool of all rates",
    "draws": "learned, rates by 4 draws together",
    "response": "learned, rates by held-out rows (STN)",
}
"""What pages call the ways of ``--arms``; held-out rows choose the size of the fixed ones."""


def summary(sets: Mapping[str, Sequence[Plain]], gaps: Collection[str] = ()) -> Plain:
    """Give log likelihood and regret of each way to a rate, for ensembles and for single networks."""
    results: Plain = {}
    for size in SIZES:
        tables = {name: _of_table([part[size] for part in parts]) for name, parts in sets.items()}
        results[size] = {"tables": tables}
        kinds = {"random": [n for n in tables if n not in gaps], "gaps": [n for n in tables if n in gaps]}
        for kind, names in kinds.items():
            regrets = {way: [tables[name]["regret"][way][0] for name in names] for way in LABELS}
            if names:
                results[size][kind] = {
                    "worst": {way: max(each) for way, each in regrets.items()},
                    "mean": {way: float(np.mean(each)) for way, each in regrets.items()},
                }
    return results


def beside_grid(results: Plain) -> Plain:
    """Hold each way to a rate against the grid, on the one split of a large table."""
    error = results["error"]
    return {
        "log_likelihood": results["log_likelihood"][GRID],
        "gain": {way: results["gain_on_grid"][way] for way in LABELS},
        "error": error,
        "error_beside": {way: error[way] / error[GRID] - 1 for way in LABELS},
        "grid": results["grid"],
        "strength": results["strength"],
        "rates": results["rates"],
    }


def gains(sets: Mapping[str, Sequence[Plain]], arms: Sequence[str]) -> Plain:
    """Compare ensembles with those whose strength is chosen by held-out rows, split by split."""
    ways = (OFF, GRID, ELBO, *arms)
    tables = {name: _gains_of_table(parts, ways, arms) for name, parts in sets.items()}
    over = {way: np.array([table["gain"][way][0] for table in tables.values()]) for way in ways}
    return {
        "tables": tables,
        "mean": {way: mean_and_error(each) for way, each in over.items()},
        "least": {way: float(each.min()) for way, each in over.items()},
        "greatest": {way: float(each.max()) for way, each in over.items()},
    }


def _gains_of_table(parts: Sequence[Plain], ways: Sequence[str], arms: Sequence[str]) -> Plain:
    scores = [
        part["ensemble"]["log_likelihood"] | {arm: part["arms"][arm]["log_likelihood"] for arm in arms}
        for part in parts
    ]
    gain = {way: np.array([each[way] - each[HELD_OUT] for each in scores]) for way in ways}
    return {
        "gain": {way: mean_and_error(each) for way, each in gain.items()},
        "chosen": {arm: [part["arms"][arm]["chosen"] for part in parts] for arm in arms},
        "rates": {arm: np.mean([part["arms"][arm]["rates"] for part in parts], axis=0).tolist() for arm in arms},
    }


def _of_table(parts: Sequence[Plain]) -> Plain:
    columns = {way: np.array([part["log_likelihood"][way] for part in parts]) for way in LABELS}
    best = max(columns, key=lambda way: columns[way].mean())
    losses = {way: columns[best] - column for way, column in columns.items()}
    strengths = [part["strength"] for part in parts]
    return {
        "log_likelihood": {way: float(column.mean()) for way, column in columns.items()},
        "best": best,
        "regret": {way: mean_and_error(loss) for way, loss in losses.items()},
        "strengths": {str(each): strengths.count(each) for each in sorted(set(strengths))},
        "rates": np.mean([part["rates"] for part in parts], axis=0).tolist(),
    }
