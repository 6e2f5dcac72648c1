"""Which force moves p? Draw the pushes on one rate of a trained network, and where they balance.

A network learns a noisy line from few and from many points. Then one rate is moved along its range, with the weights
and the other rates held, and the derivatives of the three terms of the loss are taken. Run with ``make docs-figures``;
writes ``docs/results/forces.json`` and ``.png``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

import gumdrop as gd
from gumdrop.layers import UNIT, ConcreteDropout
from gumdrop.machine.environment import environment
from gumdrop.networks import mlp
from gumdrop.training import fit
from gumdrop.views import plots
from gumdrop_experiments.harness.origin import of_script
from gumdrop_experiments.line.study import points

SIZES = (200, 500)
WIDTH, LAYER = 64, 4
"""Units of each hidden layer, and the layer whose rate is moved: the one after the second hidden layer's ReLU."""
STEPS, BATCH_SIZE, SEED = 3000, 100, 0
PASSES, ROWS = 40, 1000
RESULTS = Path(__file__).parents[1] / "results"


def train(num_data: int) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """Network and its standardised data."""
    x, y = points(num_data, SEED)
    y = (y - y.mean()) / y.std()
    torch.manual_seed(SEED)
    network = gd.learn_dropout(mlp(1, 2, hidden=(WIDTH,) * 3), include=["0"])  # the one input, too
    epochs = STEPS * BATCH_SIZE // num_data
    fit(network, (x, y), likelihood="gaussian", epochs=epochs, batch_size=BATCH_SIZE, rate_lr=1e-2, lr=2e-3, seed=SEED)
    return network, x, y


def likelihood_push(network: nn.Sequential, site: ConcreteDropout, x: torch.Tensor, y: torch.Tensor) -> float:
    """Derivative of the expected negative log likelihood by the logit, in nats per datum."""
    rows = torch.arange(ROWS) % len(x)
    torch.manual_seed(SEED)
    slope = 0.0
    for _ in range(PASSES):
        mean, log_variance = network(x[rows]).chunk(2, dim=-1)
        nll = gd.gaussian_nll(mean, log_variance, y[rows]).mean()
        slope += UNIT * torch.autograd.grad(nll, site.scaled_logit)[0].item() / PASSES
    return slope


def study(num_data: int) -> dict[str, Any]:
    """The pushes over the range of one rate, times N: in nats of the whole data set."""
    network, x, y = train(num_data)
    network.train()
    layer = network[LAYER]
    site, weight = layer.concrete_dropout, layer.weight.detach()
    trained = site.p.item()
    grid = np.linspace(0.02, 0.6, 30)
    down = []
    for p in grid:
        site.start_at(p)
        down.append(num_data * likelihood_push(network, site, x, y))
    precision = weight.shape[1]  # the fan-in prior
    weights = precision / 2 * weight.square().sum().item() * grid / (1 - grid)
    entropy = WIDTH * grid * (1 - grid) * np.log((1 - grid) / grid)
    net = entropy - weights - np.array(down)
    crossing = int(np.flatnonzero(net < 0)[0])
    balance = float(np.interp(0, -net[crossing - 1 : crossing + 1], grid[crossing - 1 : crossing + 1]))
    return {
        "num_data": num_data,
        "p": grid.tolist(),
        "entropy": entropy.tolist(),
        "weights": weights.tolist(),
        "likelihood": down,
        "balance": balance,
        "trained_p": trained,
    }


def draw_panel(ax: Axes, result: dict[str, Any]) -> None:
    """The push up as a line, the two pushes down stacked, and the point where they are equal."""
    p, up, weights, likelihood = (np.array(result[name]) for name in ("p", "entropy", "weights", "likelihood"))
    ax.fill_between(p, 0, weights, color=plots.GREEN, alpha=0.35, linewidth=0, label="down: weight term")
    ax.fill_between(
        p, weights, weights + likelihood, color=plots.ORANGE, alpha=0.35, linewidth=0, label="down: likelihood"
    )
    ax.plot(p, up, color=plots.BLUE, linewidth=2.2, label="up: entropy")
    height = np.interp(result["balance"], p, up)
    ax.plot([result["balance"]] * 2, [0, height], color=plots.INK, linewidth=1)
    ax.plot(result["balance"], height, "o", color=plots.INK, markersize=8, label="balance", zorder=4)
    ax.plot(
        result["trained_p"],
        0,
        "^",
        color=plots.INK,
        markersize=9,
        clip_on=False,
        label="p that training found",
        zorder=5,
    )
    ax.annotate(
        f"p = {result['balance']:.2f}", (result["balance"], height), (10, 10), textcoords="offset points", fontsize=10.5
    )
    ax.set(title=f"N = {result['num_data']:,}", xlabel="drop probability p", xlim=(0, 0.6), ylim=(0, 32))
    ax.spines[["top", "right"]].set_visible(False)


def draw(results: list[dict[str, Any]]) -> Figure:
    """A panel for each number of data."""
    figure = Figure(figsize=(9, 4.3), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True)
    for ax, result in zip(panels, results, strict=True):
        draw_panel(ax, result)
    panels[0].set_ylabel("push on the logit of p, nats of the whole data set")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def main() -> None:
    """Train, measure, draw."""
    torch.set_num_threads(1)
    results = [study(size) for size in SIZES]
    contents = {"command": "make docs-figures", "seed": SEED, "width": WIDTH, "layer": LAYER, "steps": STEPS}
    contents |= {"environment": environment(), "code": of_script(), "results": results}
    (RESULTS / "forces.json").write_text(json.dumps(contents, indent=1) + "\n")
    draw(results).savefig(RESULTS / "forces.png", dpi=150)
    for result in results:
        print(f"N = {result['num_data']}: balance at {result['balance']:.3f}, training found {result['trained_p']:.3f}")


if __name__ == "__main__":
    main()
