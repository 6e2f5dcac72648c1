"""The page of `gradients`."""

import statistics
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    Cell,
    Page,
    Picture,
    Table,
    band,
    dress,
    log_ticks,
    mean_and_error,
    subplots,
    table_of,
    with_error,
)

BIAS_VARIANCE = """Bias and standard deviation against the exact gradient. The corner at the lower left is best. Of
the bias, what the number of draws explains is taken away."""
NORMS = """Norm of the gradient over searches for masks; bands are one standard deviation over runs. The first three
panels agree."""
DEVIATIONS = """How far the norm differs between runs, its standard deviation over them at each step. At one
temperature the three forms lie on each other; what tells steady gradients from others is the temperature."""
NOTES = (
    """What the simplification does not change: the gradient. At a given temperature original, simplified and ours
    are one number, up to rounding and to the margin of 1e-7 that the original puts into its logarithms. What it does
    change: fewer operations in the backward pass. What a published comparison of norms shows is the temperature,
    where the released code of the simplified form runs at t=1 against t=0.1.""",
    "As written, the simplified form overflows in float32 at small temperatures; here its exponent is bounded.",
)
ERRORS = """Nine cells, five digits, two evaluations a gradient: bias and standard deviation over the norm of the
exact gradient. The same noise for all."""
SEARCHES = """Searches at full size: norm of the gradient of the score, mean over steps and runs, and its standard
deviation over runs, mean over steps; then what sharp masks at the end of the search keep and destroy."""
IDENTITY = """Derivative of a mask in float32: largest difference from ours, over its largest value. The original has
a margin of 1e-7 in its logarithms; in float32 noise itself ends at 6e-8, where ours is cut."""
LEARNED = "UCI sets, 2 x 50 units, the same start, batches and noise, two masks a step: does the gradient matter?"

ADDED = """What an unbiased gradient adds to the log likelihood of learned dropout over the relaxed one at t=0.1,
split by split (SE):"""
FORMS = ("original", "simplified", "ours")
OTHERS = {"straight-through": plots.PALETTE[3], "REINFORCE": plots.PALETTE[5], "DisARM": plots.GREEN}
STAGES = {"start": "at the start, all rates one half", "midst": "in the midst of a search"}
SHADES = (plots.INK, plots.BLUE, plots.PALETTE[4], plots.GREEN, plots.PALETTE[5])


def page(results: Plain) -> Page:
    """Say how much the spelling changes, and what a temperature costs and buys."""
    body: list[Picture | Table] = [
        Picture("gradients-bias-variance", BIAS_VARIANCE, _bias_variance(results["enumeration"])),
        _error_table(results["enumeration"]),
        Picture("gradients-norms", NORMS, _norms(results["norms"])),
        Picture("gradients-deviations", DEVIATIONS, _deviations(results["norms"])),
        _norm_table(results["norms"]),
        _identity_table(results["identity"]),
        _uci_table(results["uci"]),
    ]
    gains = "; ".join(f"{_gain(ways)} on {name}" for name, ways in results["uci"].items())
    lead = _lead(results["norms"], results["enumeration"]["midst"])
    return Page("Gradients of dropout rates", lead, body, [*NOTES, f"{ADDED} {gains}."])


def _lead(norms: Plain, errors: Plain) -> str:
    steps = len(norms["ours t=0.1"]["mean"])
    simplified, original = (statistics.fmean(norms[f"{form} t=0.1"]["sd"]) for form in ("simplified", "original"))
    high, low = (100 * errors[f"ours t={t}"]["bias"] for t in ("1", "0.1"))
    return f"""At one temperature the simplified gradient is the original one: over {steps} steps at t=0.1 its norm
    has a standard deviation of {simplified:.4f} over runs, against {original:.4f}. What a higher temperature buys in
    variance it pays in bias: at t=1 the bias is {high:.0f} % of the gradient, at t=0.1 {low:.1f} %."""


def _error_table(part: Plain) -> Table:
    records = {name: {stage: part[stage][name] for stage in STAGES} for name in part["start"]}
    cells = {
        "bias, start": "{start[bias]:.3f}",
        "SD, start": "{start[deviation]:.3f}",
        "bias, midst": "{midst[bias]:.3f}",
        "SD, midst": "{midst[deviation]:.3f}",
        "µs a gradient": "{midst[microseconds]:.0f}",
    }
    return table_of(ERRORS, records, cells, first="estimator", ours=lambda name: name.startswith("ours"))


def _norm_table(part: Plain) -> Table:
    cells: dict[str, Cell] = {
        "mean norm": lambda row: f"{statistics.fmean(row['mean']):.3f}",
        "SD over runs": lambda row: f"{statistics.fmean(row['sd']):.4f}",
        "log-odds / area kept": "{kept_log_odds:.2f} / {kept_area:.3f}",
        "log-odds / area dropped": "{destroyed_log_odds:.2f} / {dropped_area:.3f}",
    }
    return table_of(SEARCHES, part, cells, first="estimator", ours=lambda name: name.startswith("ours"))


def _identity_table(part: Plain) -> Table:
    names = ("original", "simplified")
    rows = []
    for i, row in enumerate(part["t=0.1"]):
        cells = [f"{each[name]:.0e}" for each in (row, part["t=1"][i]) for name in names]
        rows.append([f"{row['logit']:g}", *cells])
    head = ["logit of p", "original, t=0.1", "simplified, t=0.1", "original, t=1", "simplified, t=1"]
    return Table(IDENTITY, head, rows)


def _uci_table(part: Plain) -> Table:
    records = {f"{name}, {way}": row for name, ways in part.items() for way, row in ways.items()}
    cells = {
        "RMSE (SE)": lambda row: with_error(mean_and_error(row["rmse"])),
        "log likelihood (SE)": lambda row: with_error(mean_and_error(row["log_likelihood"])),
        "learned rates": lambda row: ", ".join(f"{p:.3f}" for p in row["rates"]),
    }
    return table_of(LEARNED, records, cells, first="set and gradient")


def _gain(ways: Plain) -> str:
    """What DisARM adds to the log likelihood of the relaxation, split by split, in words."""
    pairs = zip(ways["DisARM"]["log_likelihood"], ways["relaxed t=0.1"]["log_likelihood"], strict=True)
    return with_error(mean_and_error(a - b for a, b in pairs), "+.3f")


def _temperatures(results: Plain) -> list[str]:
    return [name.removeprefix("ours t=") for name in results if name.startswith("ours t=")]


def _bias_variance(part: Plain) -> Figure:
    drawing, panels = subplots(1, 2, sharex=True, sharey=True, size=(8.2, 3.6))
    for ax, (stage, title) in zip(panels, STAGES.items(), strict=True):
        results = part[stage]
        relaxed = [results[f"ours t={t}"] for t in _temperatures(results)]
        xs, ys = [row["bias"] for row in relaxed], [row["deviation"] for row in relaxed]
        ax.plot(xs, ys, "o-", color=plots.BLUE, markersize=4, linewidth=1.2, label="relaxed, any of its three forms")
        for x, y, t in zip(xs, ys, _temperatures(results), strict=True):
            ax.annotate(f"t={t}", (x, y), xytext=(5, 4), textcoords="offset points", fontsize=plots.SIZE - 1.5)
        for name, colour in OTHERS.items():
            ax.plot(results[name]["bias"], results[name]["deviation"], "D", color=colour, markersize=5, label=name)
        log_ticks(ax, 1, 2, 5)
        y = "standard deviation / norm" if stage == "start" else ""
        dress(ax, title=title, x="bias / norm of the exact gradient", y=y, xlim=(-0.015, None))
    ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc="best")
    return drawing


def _norms(part: Plain) -> Figure:
    drawing, panels = subplots(2, 2, sharex=True, sharey=True, size=(8.2, 5.6))
    axes = panels.flat
    for ax, form in zip(axes, FORMS, strict=False):
        for t, colour in zip(_temperatures(part), SHADES, strict=True):
            _band(ax, part[f"{form} t={t}"], colour, f"t={t}")
        dress(ax, title=form)
    for name, colour in OTHERS.items():
        _band(axes[3], part[name], colour, name)
    dress(axes[3], title="without a relaxation")
    drawing.supxlabel("step", fontsize=plots.SIZE)
    drawing.supylabel("L2 norm", fontsize=plots.SIZE)
    for ax, corner in ((axes[0], "upper right"), (axes[3], "center right")):
        ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc=corner)
    log_ticks(axes[0], 1, 2, 5)
    return drawing


def _deviations(part: Plain) -> Figure:
    drawing, (relaxed, others) = subplots(1, 2, sharex=True, sharey=True, size=(8.2, 3.4))
    for t, colour in zip(_temperatures(part), SHADES, strict=True):
        for form, line in zip(FORMS, ("-", "--", ":"), strict=True):
            label = f"t={t}" if line == "-" else ""
            _deviation(relaxed, part[f"{form} t={t}"], color=colour, linestyle=line, label=label)
    for name, colour in OTHERS.items():
        _deviation(others, part[name], color=colour, label=name)
    title = "original (solid), simplified (dashed), ours (dotted)"
    dress(relaxed, title=title, x="step", y="SD of the norm over runs", yscale="log", legend=plots.SIZE - 1)
    dress(others, title="without a relaxation", x="step", legend=plots.SIZE - 1)
    return drawing


def _deviation(ax: Axes, row: Plain, **look: Any) -> None:
    ax.plot(np.arange(1, len(row["sd"]) + 1), row["sd"], linewidth=1.3, **look)


def _band(ax: Axes, row: Plain, colour: str, label: str) -> None:
    mean, sd = np.asarray(row["mean"]), np.asarray(row["sd"])
    steps, low = np.arange(1, len(mean) + 1), np.maximum(mean - sd, mean * 0.05)
    band(ax, steps, mean, low, mean + sd, color=colour, linewidth=1.3, label=label)
