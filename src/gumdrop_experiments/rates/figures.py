"""The figure of `rates`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.rates.results import ARM_LABELS, ELBO, GRID, HELD_OUT, LABELS, OFF

GREY = "#8a8f98"
MOST = 0.5
"""Nats that are shown; what loses more stands at the edge."""
SHOWN = 0.1
"""The same for gains, which are small."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw the regret of each way to a rate: a dot for each table, a bar to the worst."""
    yield "rates", _regret(results["ensemble"], results["labels"], results["gaps"], "ensembles")
    yield "rates-single", _regret(results["single"], results["labels"], results["gaps"], "single networks")
    if "large" in results:
        yield "rates-large", _beside_grid(results["large"], results["labels"])
    if "arms" in results:
        yield "rates-arms", _gains(results["arms"], results["labels"])


def _regret(found: Mapping[str, Any], labels: Mapping[str, str], gaps: Sequence[str], what: str) -> Figure:
    ways = list(LABELS)[::-1]
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    names = found["tables"]
    for i, way in enumerate(ways):
        colour = ORANGE if way == HELD_OUT else BLUE if way == ELBO else GREY
        worst = found["random"]["worst"][way]
        axes.barh(i, min(worst, MOST), color=colour, alpha=0.25, height=0.62)
        regrets = {name: table["regret"][way][0] for name, table in names.items()}
        for name, regret in regrets.items():
            look = {"markerfacecolor": "white"} if name in gaps else {"alpha": 0.8}
            axes.plot(min(regret, MOST), i, "o", color=colour, markersize=5, **look)
        last = max((name for name in names if name not in gaps), key=lambda name: regrets[name])
        widest = max(regrets, key=lambda name: regrets[name])
        said = f"{worst:.2f}, {labels[last]}"
        if widest != last:  # the bar ends before a hollow dot, beside which the words stand
            said += f"; {regrets[widest]:.2f}, {labels[widest]}"
        edge = min(regrets[widest], MOST)
        axes.annotate(said, (edge, i), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(ways)), [LABELS[way] for way in ways], fontsize=9)
    axes.set_xlim(0, MOST * 1.75)
    axes.set_xticks([0, 0.1, 0.2, 0.3, 0.4, 0.5], ["0", "0.1", "0.2", "0.3", "0.4", "0.5 or more"], fontsize=8)
    axes.set_xlabel("log likelihood lost on the best rate for the table, nats per row", fontsize=9)
    axes.set_title(
        f"What a rate risks: a dot for each table, hollow for gaps; a bar to the worst ({what})",
        fontsize=10,
        loc="left",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.axvline(0, color=INK, linewidth=1)
    return figure


def _beside_grid(found: Mapping[str, Any], labels: Mapping[str, str]) -> Figure:
    """A row for each large table: gain on the grid of what needs no search, with its standard error."""
    figure = Figure(figsize=(9, 1.2 + 0.6 * len(found["ensemble"])), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    ways = {OFF: GREY, ELBO: BLUE, HELD_OUT: ORANGE}
    for axes, (size, tables) in zip(panels, found.items(), strict=True):
        for i, table in enumerate(tables.values()):
            for j, (way, colour) in enumerate(ways.items()):
                gain, error = table["gain"][way]
                label = LABELS[way] if i == 0 and size == "ensemble" else None
                axes.errorbar(gain, i + 0.22 * (j - 1), xerr=error, fmt="o", color=colour, markersize=4, label=label)
        axes.axvline(0, color=INK, linewidth=1)
        axes.set_title("ensembles" if size == "ensemble" else "single networks", fontsize=10, loc="left")
        axes.set_xlabel("gain in log likelihood on the grid, nats per row", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(labelsize=8.5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(found["ensemble"])), [labels[name] for name in found["ensemble"]], fontsize=9)
    panels[0].invert_yaxis()
    figure.suptitle("Large tables: what is gained on a grid of six rates, with standard errors", fontsize=10)
    figure.legend(loc="outside lower center", ncols=len(ways), frameon=False, fontsize=9)
    return figure


def _gains(found: Mapping[str, Any], labels: Mapping[str, str]) -> Figure:
    """A dot for each table, and the mean over tables with its standard error, less that of the default."""
    ways = list(found["mean"])[::-1]
    figure = Figure(figsize=(9, 0.8 + 0.42 * len(ways)), layout="constrained")
    axes = figure.subplots()
    for i, way in enumerate(ways):
        colour = GREY if way in (OFF, GRID) else BLUE if way == ELBO else ORANGE
        each = {name: table["gain"][way][0] for name, table in found["tables"].items()}
        axes.plot(
            [max(-SHOWN, min(gain, SHOWN)) for gain in each.values()], [i] * len(each), "o", color=colour, alpha=0.6
        )
        mean, error = found["mean"][way]
        if abs(mean) < SHOWN:
            axes.errorbar(mean, i, xerr=error, fmt="D", color=INK, markersize=5, capsize=3)
        worst = min(each, key=lambda name: each[name])
        said = f"{mean:+.3f} ({error:.3f}); worst {each[worst]:+.3f}, {labels[worst]}"
        axes.annotate(said, (SHOWN * 1.08, i), va="center", fontsize=8)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(ways)), [(ARM_LABELS | LABELS)[way] for way in ways], fontsize=9)
    axes.set_xlim(-SHOWN * 1.05, SHOWN * 2.8)
    ends = [f"{-SHOWN:g}\nor less", f"{-SHOWN / 2:g}", "0", f"{SHOWN / 2:g}", f"{SHOWN:g}\nor more"]
    axes.set_xticks([-SHOWN, -SHOWN / 2, 0, SHOWN / 2, SHOWN], ends, fontsize=8)
    axes.set_xlabel("gain in log likelihood over one strength by held-out rows, nats per row", fontsize=9, loc="left")
    axes.set_title(
        "Other ways to a rate: a dot for each table, a diamond for their mean and its standard error",
        fontsize=10,
        loc="left",
    )
    axes.spines[["top", "right"]].set_visible(False)
    return figure
