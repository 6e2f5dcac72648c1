"""The page of `starts`."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, Table, dress, legend_below, log_ticks, subplots, with_error
from gumdrop_experiments.starts.study import LEARNED, LENGTHS, STARTS

FROM_STARTS = """The rate of each layer over training, from each start, median over splits; dotted with a fifth of
the steps. Good are lines that end at one place: then nobody needs to choose a start. Rates below 1e-4 stand at the
edge."""
TEMPERATURES = """Against the temperature of the relaxed masks, the default of .1 marked; the star is a temperature
that is learned with the weights. Predictions draw hard masks in all of them. Good are training rows that are worth
the same under both kinds of masks: then training minimises what predictions will do."""
NOTES = (
    """Numbers: 2 x 50 units, the weak prior, one level of noise that follows a tenth of the training rows; classes:
    2 x 128 units and a prior N(0, 1) on each weight. AdamW in one cycle of the learning rate, the same for weights
    and rates. The same split has the same initial weights under all starts and temperatures.""",
    """Gain: log likelihood of the test part less that of the default (start .1, temperature .1), split by split,
    with its standard error over splits. Predictions average 50 hard masks; 'relaxed' and 'hard' are the NLL of
    training rows after training, each row under one mask of its own, over 20 masks of either kind.""",
)

LAYERS = ("inputs", "hidden 1", "hidden 2")
COLOURS = (PALETTE[3], BLUE, GREEN)
LEAST = 1e-4
"""Rates that are shown; smaller ones stand at the edge."""


def page(results: Plain) -> Page:
    """Say how far starts and temperatures matter."""
    body: list[Picture | Table] = [Picture("starts", FROM_STARTS, _draw_starts(results))]
    body += [_starts(name, found) for name, found in results.items()]
    body += [Picture("starts-temperatures", TEMPERATURES, _draw_temperatures(results))]
    body += [_temperatures(name, found) for name, found in results.items()]
    return Page("Starts and temperatures of learned rates", _lead(results), body, NOTES)


def _lead(results: Plain) -> str:
    gains = {name: [each["gain"][0] for each in found["long"].values()] for name, found in results.items()}
    spreads = ", ".join(f"{max(each) - min(each):.3f} on {name}" for name, each in gains.items())
    at = {t: [found["temperatures"][t] for found in results.values()] for t in ("0.1", "1")}
    most = {t: max(each["hard_nll"] - each["relaxed_nll"] for each in of_sets) for t, of_sets in at.items()}
    return f"""Mean log likelihoods of the best and the worst start differ by {spreads}, nats a row. Under the hard
    masks of a prediction, training rows lose up to {most["0.1"]:.3f} nats on what training believed at t = .1, and
    up to {most["1"]:.3f} at t = 1."""


def _cells(scores: Plain, calibration: str) -> list[str]:
    rates = ", ".join(f"{p:.3f}" if p >= 1e-3 else f"{p:.0e}" for p in scores["rates"])
    return [f"{scores['log_likelihood']:.3f}", with_error(scores["gain"], "+.3f"), f"{scores[calibration]:.3f}", rates]


def _head(calibration: str) -> list[str]:
    return ["log likelihood", "gain (SE)", "ECE" if calibration == "ece" else "in 90 % intervals", "rates by layer"]


def _starts(name: str, scores: Plain) -> Table:
    calibration, lengths = scores["calibration"], {"long": "all steps", "short": "a fifth"}
    rows = [
        [f"{start}, {lengths[length]}", *_cells(each, calibration)]
        for length in LENGTHS
        for start, each in scores[length].items()
    ]
    return Table(f"{name}, {scores['rows']:,} training rows: starts", ["start", *_head(calibration)], rows)


def _temperatures(name: str, scores: Plain) -> Table:
    calibration = scores["calibration"]
    rows = []
    for t, arm in scores["temperatures"].items():
        label = f"learned, {arm['temperature']:.2g}" if t == LEARNED else t
        rows.append([label, *_cells(arm, calibration), f"{arm['relaxed_nll']:.3f}", f"{arm['hard_nll']:.3f}"])
    head = ["temperature", *_head(calibration), "relaxed", "hard"]
    return Table(f"{name}: temperatures; NLL of training rows under relaxed and hard masks", head, rows, ours=[2])


def _draw_starts(results: Plain) -> Figure:
    drawing, panels = subplots(len(LAYERS), len(results), sharex=True, sharey=True, squeeze=False, size=(9, 7))
    shades = [*mpl.colormaps["viridis"](np.linspace(0, 0.85, len(STARTS) - 1)), ORANGE]
    for column, (name, scores) in enumerate(results.items()):
        for row, layer in enumerate(LAYERS):
            ax = panels[row, column]
            for start, shade in zip(STARTS, shades, strict=True):
                for length, style in (("short", ":"), ("long", "-")):
                    epoch, *rates = np.array(scores[length][start]["over_training"]).T
                    label = f"from {start}" if row == column == 0 and length == "long" else None
                    drawn = rates[row].clip(min=LEAST)
                    ax.plot(epoch / epoch[-1], drawn, style, color=shade, linewidth=1.6, label=label)
            log_ticks(ax, 1)
            ax.set_ylim(LEAST * 0.8, 0.75)
            dress(ax, title=f"{name}, {scores['rows']:,} rows: {layer}", y="drop probability p" if not column else "")
        panels[-1, column].set_xlabel("share of the training")
    for label, style in (("all steps", "-"), ("few steps", ":")):
        panels[0, 0].plot([], [], style, color=INK, label=label)
    legend_below(drawing, panels[0, 0], 4, 9)
    return drawing


def _draw_temperatures(results: Plain) -> Figure:
    drawing, panels = subplots(4, len(results), sharex=True, squeeze=False, size=(9, 9))
    for column, (name, scores) in enumerate(results.items()):
        arms, kind = scores["temperatures"], scores["calibration"]
        top, second, third, last = panels[:, column]
        _line(top, arms, "log_likelihood", BLUE)
        dress(top, title=f"{name}: log likelihood, nats")
        _line(second, arms, kind, BLUE)
        if kind == "coverage":
            second.axhline(0.9, color=INK, linewidth=1, linestyle=":")
        dress(second, title="calibration error" if kind == "ece" else "share in 90 % intervals")
        _line(third, arms, "relaxed_nll", ORANGE, "relaxed masks")
        _line(third, arms, "hard_nll", INK, "hard masks")
        dress(third, title="NLL of training rows", legend=8)
        for i, (layer, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
            clipped = {t: {**each, "rate": max(each["rates"][i], LEAST)} for t, each in arms.items()}
            _line(last, clipped, "rate", colour, layer)
        log_ticks(last, 1)
        dress(last, title="learned rates", x="temperature; star: learned", xscale="log", ylim=(LEAST * 0.8, 1))
    panels[3, 0].legend(frameon=False, fontsize=8)
    for ax in panels.flat:
        ax.axvline(0.1, color=INK, linewidth=0.8, alpha=0.4)
    return drawing


def _line(ax: Axes, arms: Plain, score: str, colour: str, label: str = "") -> None:
    """Draw one number against the temperature, and a star for the one that was learned."""
    fixed = {float(t): each[score] for t, each in arms.items() if t != LEARNED}
    ax.plot(list(fixed), list(fixed.values()), "o-", color=colour, markersize=4, label=label)
    ax.plot(arms[LEARNED]["temperature"], arms[LEARNED][score], "*", color=colour, markersize=10)
