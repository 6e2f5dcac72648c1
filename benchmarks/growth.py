"""How time and memory grow with what a user chooses: a training step, a prediction, and a whole fit of a table.

A step is measured against rows of a batch, width, sites and models that train together; a prediction against draws;
``gumdrop fit`` against rows, each in a process of its own (`stream_memory` has longer tables). The slope of a curve in
a doubly logarithmic plot, over its upper half, is the power that the cost grows with. Every point is written when it is
there, and points that are there are kept, so that a run can be stopped and goes on; ``--again`` begins anew. Run with
``make benchmark-growth``; writes ``docs/results/speed_growth.json`` and ``.png``.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kept
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from fit_stages import fit_in_stages
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import nn

import gumdrop as gd
from gumdrop.ensembles import schedule
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import mlp

import steps
from timing import RESULTS, interleaved, summary, write_results

Found = dict[str, dict[str, Any]]
"""What was measured, by the name of the contestant."""

START = {"batch": 128, "width": 256, "sites": 4}
COLUMNS = 20
AT_ONCE = 250_000
"""Rows of a table that are drawn at once."""
WHOLE = 100_000
"""Rows up to which a fit makes all of its epochs; beyond it makes one, and the time of the others is told by it."""
ROUNDS = 5
LEAST_POINTS = 3
"""Of a curve, to speak of its slope."""


def chain(width: int, sites: int, dropout: float) -> nn.Module:
    """A Linear behind each site, all of one width."""
    layers: list[nn.Module] = []
    for _ in range(sites):
        layers += [nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def step(axis: str, value: int) -> Found:
    """Time of a training step, and bytes that it keeps for the backward pass."""
    size = START | {axis: value}
    torch.manual_seed(steps.SEED)
    batch = torch.randn(size["batch"], size["width"]), torch.randint(size["width"], (size["batch"],))
    rivals: dict[str, tuple[nn.Module, Callable[[nn.Module], Any] | None]] = {
        "no dropout": (chain(size["width"], size["sites"], 0.0), None),
        "fixed": (chain(size["width"], size["sites"], steps.P), None),
        "gumdrop": (gd.learn_dropout(chain(size["width"], size["sites"], 0.0), p=steps.P), steps.gumdrop_kl),
    }
    functions = {n: steps.step_of(model, batch, kl_of, compiled=False) for n, (model, kl_of) in rivals.items()}
    found = summary(interleaved(functions, rounds=ROUNDS, seed=steps.SEED), "fixed")
    for name, (model, _) in rivals.items():
        free = [*batch, *model.parameters()]
        found[name]["kept_bytes"] = kept.kept_bytes(lambda model=model: model(batch[0]), free)
    return found


def models(count: int) -> Found:
    """Time of a step of several small networks that train as one program."""
    torch.manual_seed(steps.SEED)
    networks = [mlp(COLUMNS, 1, hidden=[64, 64], homoscedastic_noise=True) for _ in range(count)]
    x, y = torch.randn(count, START["batch"], COLUMNS), torch.randn(count, START["batch"], 1)
    run = steps.stacked_step(networks, x, y, "gaussian")
    return summary(interleaved({"gumdrop": run}, rounds=ROUNDS), "gumdrop")


def draws(count: int) -> Found:
    """Time of a prediction of 64 rows that keeps moments alone."""
    torch.manual_seed(steps.SEED)
    model, x = mlp(COLUMNS, 2, p=steps.P), torch.randn(64, COLUMNS)
    run = {"gumdrop": lambda: gd.predict_regression(model, x, num_samples=count, seed=0, keep_draws=False)}
    return summary(interleaved(run, rounds=ROUNDS), "gumdrop")


def write_table(place: Path, num_rows: int) -> None:
    """Write columns of numbers, and a target that two of them and noise decide."""
    rng, writer = np.random.default_rng(steps.SEED), None
    for start in range(0, num_rows, AT_ONCE):
        x = rng.standard_normal((min(AT_ONCE, num_rows - start), COLUMNS), dtype=np.float32)
        y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.5 * rng.standard_normal(len(x), dtype=np.float32)
        rows = pa.table({f"x{i}": x[:, i] for i in range(COLUMNS)} | {"y": y})
        writer = writer or pq.ParquetWriter(place, rows.schema)
        writer.write_table(rows)
    assert writer is not None
    writer.close()


def fit(num_rows: int) -> Found:
    """Time and largest memory of ``gumdrop fit`` without the models beside it; beyond `WHOLE` rows by its stages."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "rows.parquet", Path(folder) / "fit"
        write_table(table, num_rows)
        found = fit_in_stages(table, out, epochs=1 if num_rows > WHOLE else None)
        results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    batch_size, epochs = schedule(results["table"]["train_rows"])
    epochs = epochs if num_rows > WHOLE else found["epochs_run"]
    rest = (epochs - found["epochs_run"]) * found["stage_seconds"]["epoch"]
    found["processor_seconds"] = round(found["processor_seconds"] + rest, 1)
    settings = {"epochs": epochs, "batch_size": batch_size, "num_members": results["settings"]["num_members"]}
    return {"gumdrop": found | settings}


STEP_SIZES = {"batch": (8, 32, 128, 512, 2048), "width": (16, 64, 256, 1024), "sites": (2, 4, 8, 16, 32)}
AXES: dict[str, tuple[tuple[int, ...], Callable[[int], Found]]] = {
    "rows": ((100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000), fit),
    **{name: (sizes, lambda value, name=name: step(name, value)) for name, sizes in STEP_SIZES.items()},
    "models": ((1, 2, 5, 10, 20, 50), models),
    "draws": ((10, 100, 1_000, 10_000), draws),
}
"""What grows: the values of each axis, and what measures one. Fits first: a process counts the memory of its parent."""


def slope(rows: list[dict[str, Any]], quantity: str) -> float:
    """Least-squares slope of the logarithms over the upper half of a curve."""
    upper = [(row["value"], row[quantity]) for row in rows[len(rows) // 2 :]]
    return round(float(np.polyfit(*np.log10(upper).T, 1)[0]), 2)


def curves(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The points of each axis and contestant, in order."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (list(AXES).index(row["axis"]), row["value"])):
        found.setdefault((row["axis"], row["what"]), []).append(row)
    return found


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slope of every quantity of every curve of three points or more."""
    quantities = ("median_ms", "kept_bytes", "processor_seconds", "largest_memory_megabytes")
    return [
        {"axis": axis, "what": what, "quantity": quantity, "slope": slope(curve, quantity)}
        for (axis, what), curve in curves(rows).items()
        for quantity in quantities
        if quantity in curve[0] and len(curve) >= LEAST_POINTS
    ]


def numeral(value: float) -> str:
    """Write a number of rows or draws in little room."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}"


def panel(axes: Axes, rows: list[dict[str, Any]], axis: str, quantity: str, label: str, unit: str | float) -> None:
    """Draw the curves of an axis, in units of a contestant's first value or of a number."""
    styles = {"no dropout": (":", "#888888"), "fixed": ("--", "#444444"), "gumdrop": ("-", "#1f6fb4")}
    mine = {what: curve for (name, what), curve in curves(rows).items() if name == axis}
    for what, curve in mine.items():
        one = mine[unit][0][quantity] if isinstance(unit, str) else unit
        style, colour = styles[what]
        x, y = zip(*((row["value"], row[quantity] / one) for row in curve), strict=True)
        axes.loglog(x, y, style, color=colour, marker="o", ms=3.5, label=what)
    axes.set_xlabel(label)
    axes.set_xticks(sorted({row["value"] for curve in mine.values() for row in curve}))
    axes.xaxis.set_major_formatter(lambda value, _: numeral(value))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(mine) > 1:
        axes.legend(frameon=False, fontsize=7)


PANELS: list[tuple[str, str, str, str | float, str]] = [
    ("batch", "median_ms", "rows of a batch", "fixed", "time of a step, fixed at the left = 1"),
    ("width", "median_ms", "width of all layers", "fixed", "time of a step, fixed at the left = 1"),
    ("sites", "median_ms", "sites, each in front of a layer", "fixed", "time of a step, fixed at the left = 1"),
    ("models", "median_ms", "models in one program", "gumdrop", "time of a step, one model = 1"),
    ("width", "kept_bytes", "width of all layers", 2**20, "kept for the backward pass, MiB"),
    ("draws", "median_ms", "draws of a prediction", "gumdrop", "time of a prediction, 10 draws = 1"),
    (
        "rows",
        "processor_seconds",
        f"rows of a table, {COLUMNS} columns",
        "gumdrop",
        "time of gumdrop fit, 100 rows = 1",
    ),
    ("rows", "largest_memory_megabytes", f"rows of a table, {COLUMNS} columns", 1000, "memory of gumdrop fit, GB"),
]
"""Axis, quantity, label, unit and label of what is drawn; times are in units of one, since processors differ."""


def draw(rows: list[dict[str, Any]]) -> Figure:
    """A panel for each axis and quantity."""
    figure = Figure(figsize=(13, 6.2), layout="constrained")
    for axes, (axis, quantity, label, unit, said) in zip(figure.subplots(2, 4).flat, PANELS, strict=True):
        panel(axes, rows, axis, quantity, label, unit)
        axes.set_ylabel(said)
    return figure


def write(rows: list[dict[str, Any]]) -> None:
    """Write all points with their slopes."""
    settings = {"start": START, "columns": COLUMNS, "rounds": ROUNDS, "slopes": slopes(rows)}
    write_results("speed_growth", command="make benchmark-growth", seed=steps.SEED, results=rows, **settings)


def main() -> None:
    """Measure the points that are not there, and write and draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", nargs="*", choices=AXES, default=list(AXES))
    parser.add_argument("--most", type=int, default=10**6, help="leave out larger values")
    parser.add_argument("--again", action="store_true", help="measure these axes anew")
    options = parser.parse_args()
    place = RESULTS / "speed_growth.json"
    rows: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))["results"] if place.exists() else []
    if options.again:
        rows = [row for row in rows if row["axis"] not in options.axes]
    with limited_threads(1):
        for axis in options.axes:
            for value in AXES[axis][0]:
                if value > options.most or any((row["axis"], row["value"]) == (axis, value) for row in rows):
                    continue
                rows += [
                    {"axis": axis, "value": value, "what": what} | each for what, each in AXES[axis][1](value).items()
                ]
                print(rows[-1], flush=True)
                write(rows)
        write(rows)
    draw(rows).savefig(RESULTS / "speed_growth.png", dpi=130)


if __name__ == "__main__":
    main()
