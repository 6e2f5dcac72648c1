"""How a training step grows with batch, width and number of sites: learned dropout against fixed dropout.

Run with ``make benchmark-training``; writes ``docs/results/speed_growth.json`` and ``.png``.
"""

import argparse
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

import gumdrop as gd
from gumdrop.machine.threads import limited_threads

import steps
from timing import RESULTS, interleaved, summary, write_results

START = {"batch": 128, "width": 256, "sites": 4}
AXES = {"batch": (8, 32, 128, 512, 2048), "width": (16, 64, 256, 1024), "sites": (2, 4, 8, 16, 32)}


def mlp(width: int, sites: int, dropout: float) -> nn.Module:
    """A Linear behind each site, all of one width."""
    layers: list[nn.Module] = []
    for _ in range(sites):
        layers += [nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def measure(axis: str, value: int, rounds: int) -> list[dict[str, Any]]:
    """Rows of one point."""
    size = START | {axis: value}
    torch.manual_seed(steps.SEED)
    batch = torch.randn(size["batch"], size["width"]), torch.randint(size["width"], (size["batch"],))
    models = {"no dropout": mlp(size["width"], size["sites"], 0.0), "fixed": mlp(size["width"], size["sites"], steps.P)}
    functions = {name: steps.step_of(model, batch, None, compiled=False) for name, model in models.items()}
    learned = gd.learn_dropout(mlp(size["width"], size["sites"], 0.0), p=steps.P)
    functions["gumdrop"] = steps.step_of(learned, batch, steps.gumdrop_kl, compiled=False)
    times = summary(interleaved(functions, rounds=rounds, seed=steps.SEED), "fixed")
    return [{"axis": axis, **size, "what": name} | each for name, each in times.items()]


def draw(rows: list[dict[str, Any]]) -> Figure:
    """One panel for each axis, both scales logarithmic."""
    figure = Figure(figsize=(9.5, 3.3), layout="constrained")
    labels = {"batch": "rows of a batch", "width": "width of all layers", "sites": "sites, each in front of a layer"}
    for axes, axis in zip(figure.subplots(1, 3, sharey=True), AXES, strict=True):
        for name, style in (("no dropout", ":"), ("fixed", "--"), ("gumdrop", "-")):
            mine = [row for row in rows if row["axis"] == axis and row["what"] == name]
            axes.plot(
                [row[axis] for row in mine], [row["median_ms"] for row in mine], style, marker="o", ms=4, label=name
            )
        axes.set(xscale="log", yscale="log", xlabel=labels[axis])
        axes.set_xticks(AXES[axis], [str(value) for value in AXES[axis]])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("training step, ms")
    figure.axes[0].legend(frameon=False)
    return figure


def main() -> None:
    """Measure all points, write them and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with limited_threads(1):
        for axis, values in AXES.items():
            for value in values:
                rows += measure(axis, value, options.rounds)
                print(rows[-1], flush=True)
        settings = {"start": START, "rounds": options.rounds}
        write_results("speed_growth", command="make benchmark-training", seed=steps.SEED, results=rows, **settings)
    draw(rows).savefig(RESULTS / "speed_growth.png", dpi=130)


if __name__ == "__main__":
    main()
