"""The page of `rows`."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.rows.results import GRID, LABELS, LEARNED, OFF, PRIORS, VERDICTS, verdict

__all__ = ["findings", "page", "tables"]

NATS = (
    "Test NLL in nats a row against the number of rows, held-out ones included; lower is better. A line is the mean "
    "over seeds, its band goes from the best seed to the worst. 'Grid' is the best of none, .1, .3 and .5 by held-out "
    "rows."
)
CHANGES = {"noisy": "digits with noise", "moved": "moved digits"}
NOTES = (
    "All ways of a size share the rows, the initial weights, the number of steps and the optimiser (AdamW in one cycle "
    "of the learning rate). A fifth of the rows, at most 1,000, is held out of training: it chooses the epoch that is "
    "kept and the grid's rate. Test rows choose nothing.",
    "A fixed rate is the same in front of all layers. The prior is the default of the objective; with fixed rates it "
    "is a penalty on squared weights, whose share in the loss falls with 1/N on the tables, as that of the entropy of "
    "the masks does everywhere. On digits the cap on what weights may cost a row holds at all sizes, and it does not "
    "fall.",
    "Digits: noise with an SD of .45 of the brightest pixel; moved by two pixels to the right and two down. Tables: "
    "inputs and targets in units of the whole training part, a test part of its own for each seed; networks say mean "
    "and variance.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Say where learned rates are ahead."""
    lead, *others = findings(results)
    return Page("Nats against the number of rows", lead, [Figure("rows", NATS), *tables(results)], [*others, *NOTES])


def tables(results: Mapping[str, Any]) -> list[Table]:
    """The scores of all ways, what each loses, and how networks were trained."""
    sets = results["sets"]
    changed = [_changed(sets["mnist"])] if "mnist" in sets else []
    return [_regrets(results), *(_scores(sets, prior) for prior in PRIORS), *changed, _plans(sets)]


def findings(results: Mapping[str, Any]) -> list[str]:
    """What each way loses at worst, where learned rates are ahead of the grid, and what the prior is worth."""
    worst = (f"{label} {results['regret']['prior'][way]['worst']:.3f}" for way, label in LABELS.items())
    found = [f"With the prior, nats a row lost at worst on the best way of a set and size: {', '.join(worst)}."]
    for each in results["sets"].values():
        words = [f"{_beside(each['sizes'], prior)} {label}" for prior, label in PRIORS.items()]
        found.append(f"{each['label']}, learned rates beside the grid: {'; '.join(words)}.")
        ends = each["sizes"][:: max(1, len(each["sizes"]) - 1)]
        gains = " and ".join(f"{_gains_of_prior(size)} with {size['rows']:,} rows" for size in ends)
        found.append(f"{each['label']}, nats that the prior gains: {gains}.")
    return found


def _beside(sizes: Sequence[Mapping[str, Any]], prior: str) -> str:
    verdicts = {size["rows"]: verdict(size["gains"][prior]["test"][GRID]) for size in sizes}
    with_word = {word: [f"{n:,}" for n, its in verdicts.items() if its == word] for word in VERDICTS}
    return ", ".join(f"{word} with {' and '.join(rows)} rows" for word, rows in with_word.items() if rows)


def _gains_of_prior(size: Mapping[str, Any]) -> str:
    return ", ".join(f"{_gain(size['gains_of_prior'][way])} {LABELS[way]}" for way in (OFF, LEARNED))


def _gain(gain: tuple[float, float | None]) -> str:
    mean, half = gain
    return f"{mean:+.3f}" if half is None else f"{mean:+.3f} (± {half:.3f})"


def _rates(size: Mapping[str, Any], prior: str) -> str:
    columns = zip(*size["ways"][prior][LEARNED]["rates"], strict=True)
    return ", ".join(f"{fmean(rates):.3f}" for rates in columns)


def _scores(sets: Mapping[str, Any], prior: str) -> Table:
    """NLL of each way, and the gain of learned rates on the grid."""
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for found in sets.values():
        for size in found["sizes"]:
            nll = [mean_and_error(size["ways"][prior][way]["test"]["nll"]) for way in LABELS]
            best.add((len(rows), 2 + nll.index(min(nll))))
            has_error = len(size["seeds"]) > 1
            cells = [f"{mean:.3f} ({error:.3f})" if has_error else f"{mean:.3f}" for mean, error in nll]
            rows.append([found["label"], f"{size['rows']:,}", *cells, _gain(size["gains"][prior]["test"][GRID])])
    caption = (
        f"Test NLL {PRIORS[prior]}, mean over seeds (standard error); and what learned rates gain on the grid, with "
        "its 95 % interval over seeds, which with two seeds is 13 standard errors wide to each side."
    )
    return Table(caption, ["", "rows", *LABELS.values(), "gain"], rows, best=best)


def _regrets(results: Mapping[str, Any]) -> Table:
    """What each way loses on the best way of a size."""
    regret = results["regret"]
    rows = [
        [label, *(f"{regret[prior][way][kind]:.3f}" for prior in PRIORS for kind in ("worst", "mean"))]
        for way, label in LABELS.items()
    ]
    heads = [f"{kind}, {label}" for label in PRIORS.values() for kind in ("worst", "mean")]
    return Table(
        "Nats that each way loses on the best way of a set and size.", ["", *heads], rows, ours=[len(rows) - 1]
    )


def _changed(found: Mapping[str, Any]) -> Table:
    """Accuracy and calibration of digits as they are, and NLL of changed ones, with the prior."""
    rows = []
    for size in found["sizes"]:
        for way, label in LABELS.items():
            run = size["ways"]["prior"][way]
            clean = [f"{fmean(run['test']['accuracy']):.2%}", f"{fmean(run['test']['ece']):.3f}"]
            rows.append([f"{size['rows']:,}", label, *clean, *(f"{fmean(run[test]['nll']):.3f}" for test in CHANGES)])
    heads = ["accuracy", "ECE", *(f"NLL, {label}" for label in CHANGES.values())]
    ours = [i for i, row in enumerate(rows) if row[1] == LABELS[LEARNED]]
    return Table("Digits, with the prior: means over seeds.", ["rows", "", *heads], rows, ours=ours)


def _plans(sets: Mapping[str, Any]) -> Table:
    """How each size was trained, and the rates that it learned."""
    heads = {"held_out": "held out", "batch_size": "batch", "epochs": "epochs", "steps": "steps"}
    rows = [
        [
            *(found["label"], f"{size['rows']:,}"),
            *(f"{size[name]:,}" for name in heads),
            *(str(len(size["seeds"])), *(_rates(size, prior) for prior in PRIORS)),
        ]
        for found in sets.values()
        for size in found["sizes"]
    ]
    columns = ["", "rows", *heads.values(), "seeds", *(f"learned rates {label}" for label in PRIORS.values())]
    return Table("Steps and seeds of each size, the same for all ways.", columns, rows)
