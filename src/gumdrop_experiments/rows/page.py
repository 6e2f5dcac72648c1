"""The page of `rows`."""

from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    Page,
    Picture,
    Table,
    band,
    dress,
    log_ticks,
    mean_and_error,
    subplots,
    ticks_at,
    with_error,
)
from gumdrop_experiments.rows.results import GRID, LABELS, LEARNED, OFF, PRIORS, VERDICTS, Gain, verdict

NATS = """Test NLL in nats a row against the number of rows, held-out ones included; lower is better. A line is the
mean over seeds, its band goes from the best seed to the worst. 'Grid' is the best of none, .1, .3 and .5 by held-out
rows."""
CHANGES = {"noisy": "digits with noise", "moved": "moved digits"}
NOTES = (
    """All ways of a size share the rows, the initial weights, the number of steps and the optimiser (AdamW in one
    cycle of the learning rate). A fifth of the rows, at most 1,000, is held out of training: it chooses the epoch
    that is kept and the grid's rate. Test rows choose nothing.""",
    """A fixed rate is the same in front of all layers. The prior is the default of the objective; with fixed rates
    it is a penalty on squared weights, whose share in the loss falls with 1/N on the tables, as that of the entropy
    of the masks does everywhere. On digits the cap on what weights may cost a row holds at all sizes, and it does
    not fall.""",
    """Digits: noise with an SD of .45 of the brightest pixel; moved by two pixels to the right and two down. Tables:
    inputs and targets in units of the whole training part, a test part of its own for each seed; networks say mean
    and variance.""",
    """All ways have the same number of rows, and take what they hold out from these. With a third of this learning
    rate all ways but no dropout do worse on 1,000 digits.""",
)
LOOKS = {
    OFF: ("none", INK, "-"),
    "0.1": ("0.1", GREEN, "-"),
    "0.3": ("0.3", PALETTE[3], "-"),
    "0.5": ("0.5", PALETTE[5], "-"),
    GRID: ("grid", ORANGE, "--"),
    LEARNED: ("learned", BLUE, "-"),
}
APART = 0.058
"""Least distance of two labels, as a share of the height."""


def page(results: Plain) -> Page:
    """Say where learned rates are ahead."""
    lead, *others = findings(results)
    figures = {"rows": "prior", "rows-without": "without"}
    pictures = [Picture(name, NATS, _draw(results["sets"], prior)) for name, prior in figures.items()]
    body: list[Picture | Table] = [*pictures, *tables(results)]
    return Page("Nats against the number of rows", lead, body, [*others, *NOTES])


def findings(results: Plain) -> list[str]:
    """What each way loses at worst, where learned rates are ahead of the grid, and what the prior is worth."""
    worst = (f"{label} {results['regret']['prior'][way]['worst']:.3f}" for way, label in LABELS.items())
    sentences = [f"With the prior, nats a row below the best of a set and size, at worst: {', '.join(worst)}."]
    for its in results["sets"].values():
        label, sizes = its["label"], its["sizes"]
        words = "; ".join(f"{_beside_grid(sizes, prior)} {name}" for prior, name in PRIORS.items())
        ends = [(size["gains_of_prior"], size["rows"]) for size in sizes[:: max(1, len(sizes) - 1)]]
        of_prior = (", ".join(f"{_gain(gains[way])} {LABELS[way]}" for way in (OFF, LEARNED)) for gains, _ in ends)
        gains = " and ".join(f"{gain} with {rows:,} rows" for gain, (_, rows) in zip(of_prior, ends, strict=True))
        sentences.append(f"{label}, learned rates beside the grid: {words}.")
        sentences.append(f"{label}, nats that the prior gains: {gains}.")
    return sentences


def _beside_grid(sizes: Sequence[Plain], prior: str) -> str:
    rows: dict[str, list[str]] = {word: [] for word in VERDICTS}
    for size in sizes:
        rows[verdict(size["gains"][prior]["test"][GRID])].append(f"{size['rows']:,}")
    return ", ".join(f"{word} with {' and '.join(numbers)} rows" for word, numbers in rows.items() if numbers)


def _gain(gain: Gain) -> str:
    mean, half = gain
    return f"{mean:+.3f}" if half is None else f"{mean:+.3f} (± {half:.3f})"


def tables(results: Plain) -> list[Table]:
    """The scores of all ways, what each loses, and how networks were trained."""
    sets = results["sets"]
    changed = [_changed(sets["mnist"]["sizes"])] if "mnist" in sets else []
    sizes = [([its["label"], f"{size['rows']:,}"], size) for its in sets.values() for size in its["sizes"]]
    protocols = [_protocols(results["protocols"])] if results["protocols"] else []
    scores = [_scores(sizes, prior) for prior in PRIORS]
    return [_regrets(results["regret"]), *scores, *changed, *protocols, _plans(sizes)]


def _regrets(regret: Plain) -> Table:
    columns = {f"{kind}, {label}": (prior, kind) for prior, label in PRIORS.items() for kind in ("worst", "mean")}
    rows = [
        [label, *(f"{regret[prior][way][kind]:.3f}" for prior, kind in columns.values())]
        for way, label in LABELS.items()
    ]
    caption = "Nats of each method below the best of a set and size."
    return Table(caption, ["", *columns], rows, ours=[len(rows) - 1])


def _scores(sizes: Sequence[tuple[list[str], Plain]], prior: str) -> Table:
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for heads, size in sizes:
        nll = [mean_and_error(size["ways"][prior][way]["test"]["nll"]) for way in LABELS]
        best.add((len(rows), 2 + nll.index(min(nll))))
        cells = [with_error(pair) if len(size["seeds"]) > 1 else f"{pair[0]:.3f}" for pair in nll]
        rows.append([*heads, *cells, _gain(size["gains"][prior]["test"][GRID])])
    caption = f"""Test NLL {PRIORS[prior]}, mean over seeds (standard error); and what learned rates gain on the
    grid, with its 95 % interval over seeds."""
    return Table(caption, ["", "rows", *LABELS.values(), "gain"], rows, best=best)


def _changed(sizes: Sequence[Plain]) -> Table:
    rows = []
    for size in sizes:
        for way, label in LABELS.items():
            run = size["ways"]["prior"][way]
            clean = [f"{fmean(run['test']['accuracy']):.2%}", f"{fmean(run['test']['ece']):.3f}"]
            rows.append([f"{size['rows']:,}", label, *clean, *(f"{fmean(run[test]['nll']):.3f}" for test in CHANGES)])
    heads = ["accuracy", "ECE", *(f"NLL, {label}" for label in CHANGES.values())]
    ours = [i for i, row in enumerate(rows) if row[1] == LABELS[LEARNED]]
    return Table("Digits, with the prior: means over seeds.", ["rows", "", *heads], rows, ours=ours)


def _protocols(protocols: Sequence[Plain]) -> Table:
    rows = []
    for protocol in protocols:
        plan = [f"{protocol['rows'] - protocol['held_out']:,}", f"{protocol['held_out']:,}", f"{protocol['steps']:,}"]
        nll = [with_error(mean_and_error(protocol["nll"][way])) for way in LABELS]
        rows.append([protocol["label"], *plan, *nll, _gain(protocol["gain"])])
    heads = ["protocol", "digits trained on", "held out", "steps", *LABELS.values(), "gain"]
    return Table("Digits by other protocols, with the prior: test NLL, mean over seeds (standard error).", heads, rows)


def _plans(sizes: Sequence[tuple[list[str], Plain]]) -> Table:
    names = {"held_out": "held out", "batch_size": "batch", "epochs": "epochs", "steps": "steps"}
    rows = []
    for heads, size in sizes:
        layers = [zip(*size["ways"][prior][LEARNED]["rates"], strict=True) for prior in PRIORS]
        rates = [", ".join(f"{fmean(of_seeds):.3f}" for of_seeds in its) for its in layers]
        rows.append([*heads, *(f"{size[name]:,}" for name in names), str(len(size["seeds"])), *rates])
    columns = ["", "rows", *names.values(), "seeds", *(f"learned rates {label}" for label in PRIORS.values())]
    return Table("Steps and seeds of each size, the same for all ways.", columns, rows)


def _draw(sets: Plain, prior: str) -> Figure:
    drawing, panels = subplots(1, len(sets), squeeze=False, size=(3.6 * len(sets), 3.7))
    for ax, (name, its) in zip(panels[0], sets.items(), strict=True):
        _lines(ax, its["sizes"], prior, is_log=name == "mnist")
        dress(ax, title=f"{its['label']}, {PRIORS[prior]}", x="rows")
        _name_lines(ax)
    panels[0, 0].set_ylabel("test NLL, nats a row")
    return drawing


def _lines(ax: Axes, sizes: Sequence[Plain], prior: str, *, is_log: bool) -> None:
    """Draw the mean of each way over seeds, and a band from the least to the greatest; densities go below 0 nats."""
    rows = [size["rows"] for size in sizes]
    for way, (label, colour, style) in LOOKS.items():
        scores = [size["ways"][prior][way]["test"]["nll"] for size in sizes]
        middle, low, high = (list(map(of, scores)) for of in (fmean, min, max))
        look: Plain = {"linestyle": style, "marker": "o", "markersize": 3, "linewidth": 1.7, "label": label}
        band(ax, rows, middle, low, high, color=colour, **look)
    ticks_at(ax, rows, lambda count: f"{count / 1000:.3g}k" if count >= 1000 else f"{count}")
    if is_log:
        log_ticks(ax, 1, 1.2, 1.5, 2, 3, 5, 7)


def _name_lines(ax: Axes) -> None:
    """Write the name of each line at its right end, pushed apart where ends are near."""
    scale = ax.transData - ax.transAxes
    ends = [(float(scale.transform((1.0, np.asarray(line.get_ydata())[-1]))[1]), line) for line in ax.lines]
    height = float("-inf")
    for end, line in sorted(ends, key=itemgetter(0)):
        height = max(end, height + APART)
        look: Plain = {"color": line.get_color(), "fontsize": 9, "va": "center"}
        ax.text(1.02, height, str(line.get_label()), transform=ax.transAxes, **look)
