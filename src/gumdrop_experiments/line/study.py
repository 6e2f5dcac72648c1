"""A noisy line, from ten points to ten thousand (Gal, Hron & Kendall 2017, Fig. 1).

The noise of y = 2 x + 8 + e is known, so what a network takes for noise (aleatoric) and what it knows that it does not
know (epistemic) can be held against the truth, and the learned rates against the size of the data. Each network is
trained twice, once for half as many steps: where both agree, the figures are those of the objective and
not of the patience of whoever trained it. Beside the published width of 1024 units stands one of 64, because the
entropy that pulls rates up grows with the number of units and shrinks with the number of data.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from torch import Tensor

from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates, learn_dropout, mlp
from gumdrop.prediction import predict_regression
from gumdrop.training import fit
from gumdrop.views import plots
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["even_network", "line"]

SIZES = (10, 25, 50, 100, 1000, 10_000)
SLOPE, OFFSET, NOISE = 2.0, 8.0, 1.0
USUAL = torch.special.ndtri((torch.arange(50) + 0.5) / 50)
"""Inputs, as often as they occur."""
GRID = torch.linspace(-4, 4, 41)
SUMMARY = ("aleatoric", "epistemic", "error", "rates")
LAYERS = ("input", "hidden 1", "hidden 2", "hidden 3")
COLOURS = (plots.PALETTE[3], plots.BLUE, plots.GREEN, plots.ORANGE)

BATCH_SIZE, LR, RATE_LR, MAX_NORM = 100, 1e-3, 1e-2, 10.0
LENGTHSCALE = 1.0
"""A weight has a prior variance of 1. Under `"fan_in"` ten points cannot pay for the weights of a wide network."""

PUBLISHED: dict[str, dict[int, float]] = {
    "aleatoric": {10: 1.32, 10_000: 1.23},
    "epistemic": {10: 1.09, 10_000: 0.54},
    "hidden": {10: 0.40, 10_000: 0.13},
    "input": {10_000: 0.08},
}
"""Standard deviations and rates of the authors' stored runs, at the ends of the range."""


@dataclass(frozen=True)
class _Scale:
    """A network and how long it is trained; a wide one costs more a step."""

    width: int
    steps: int
    num_samples: int = 400

    def steps_for(self, num_data: int) -> int:
        """Twice as many for each power of ten above a hundred data."""
        return round(self.steps * 2 ** max(0.0, math.log10(num_data) - 2))


FULL = (_Scale(width=1024, steps=1000), _Scale(width=64, steps=2000))
QUICK = (_Scale(width=64, steps=300, num_samples=100), _Scale(width=16, steps=300, num_samples=100))

Result = dict[str, Any]
Series = dict[str, Any]


def line(options: RunOptions = RunOptions(), *, steps: int | None = None) -> None:
    """Learn a noisy line from more and more points, and tell noise from ignorance.

    Args:
        options: The flags that all experiments share.
        steps: Steps for up to a hundred points; twice as many for a thousand, four times for ten thousand. By
            default 1,000 for the published width of 1024 units and 2,000 for 64 units.

    Raises:
        ValueError: If `steps` is less than 2.
    """
    if steps is not None and steps < 2:
        raise ValueError(f"`steps` must be at least 2, got {steps}")
    scales = [replace(scale, steps=steps or scale.steps) for scale in (QUICK if options.quick else FULL)]
    with Run("line", options, {"steps": steps}) as run:
        wide, narrow = reversed([_series(run, scale) for scale in reversed(scales)])  # the quick one first
        run.figure("line-fits", _draw_fits(wide))
        run.figure("line-fits-narrow", _draw_fits(narrow))
        run.figure("line-uncertainty", _draw_uncertainty([wide, narrow]))
        run.figure("line-rates", _draw_rates([wide, narrow]))
        results = {"sizes": SIZES, "published": PUBLISHED, "networks": [wide, narrow]}
        run.finish(results, _page(wide, narrow))


def _series(run: Run, scale: _Scale) -> Series:
    """All sizes with one network, and again with half the steps."""
    shorter = replace(scale, steps=scale.steps // 2)
    half = run.parts({f"width={scale.width}-N={n}-half": partial(_study, run, n, shorter) for n in SIZES})
    full = run.parts({f"width={scale.width}-N={n}": partial(_study, run, n, scale) for n in SIZES})
    brief = ("num_data", "steps", *SUMMARY)
    return {
        "width": scale.width,
        "runs": list(full.values()),
        "half_the_steps": [{name: result[name] for name in brief} for result in half.values()],
        "even_network": [even_network(n, scale.width) for n in SIZES],
    }


# One network


def points(num_data: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw points of the noisy line: two columns of shape (N, 1)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_data, 1, generator=generator)
    return x, SLOPE * x + OFFSET + NOISE * torch.randn(num_data, 1, generator=generator)


def _study(run: Run, num_data: int, scale: _Scale) -> Result:
    """Train on so many points, and measure what the network says."""
    seed = run.options.seed
    batches = math.ceil(num_data / BATCH_SIZE)
    epochs = math.ceil(scale.steps_for(num_data) / batches)
    x, y = points(num_data, seed)
    mean, std = y.mean(), y.std()
    with torch.random.fork_rng(devices=[]), limited_threads(None if scale.width > 256 else 1):
        torch.manual_seed(seed)
        network = mlp(1, 2, hidden=(scale.width,) * 3)
        # The paper drops the one input, too.
        network = learn_dropout(network, include=["0"]).to(run.options.device)
        result = fit(
            network,
            (x, (y - mean) / std),
            likelihood="gaussian",
            epochs=epochs,
            batch_size=BATCH_SIZE,
            lr=LR,
            rate_lr=RATE_LR,
            max_norm=MAX_NORM,
            lengthscale=LENGTHSCALE,
            seed=seed,
            checkpoint=run.checkpoint(f"width={scale.width}-N={num_data}-{epochs}"),
            progress=f"{scale.width} units, N = {num_data}",
        )
        asked = torch.cat([USUAL, GRID]).unsqueeze(1).to(run.options.device)
        prediction = predict_regression(network, asked, num_samples=scale.num_samples, seed=seed, keep_draws=False)
    prediction = prediction.rescale(std.item(), mean.item())
    usual, grid = slice(len(USUAL)), slice(len(USUAL), None)
    return {
        "num_data": num_data,
        "steps": epochs * batches,
        "aleatoric": prediction.aleatoric[usual].mean().sqrt().item(),
        "epistemic": prediction.epistemic[usual].mean().sqrt().item(),
        "error": (prediction.mean[usual, 0].cpu() - SLOPE * USUAL - OFFSET).square().mean().sqrt().item(),
        "rates": list(dropout_rates(network).values()),
        "rates_over_training": [
            _rounded(torch.tensor(list(record.rates.values())))
            for record in result.history[:: max(1, len(result.history) // 20)]
        ],
        "data": {"x": _rounded(x[:100, 0]), "y": _rounded(y[:100, 0])},
        "curve": {
            "x": _rounded(GRID),
            "mean": _rounded(prediction.mean[grid, 0]),
            "epistemic": _rounded(prediction.epistemic[grid, 0].sqrt()),
            "aleatoric": _rounded(prediction.aleatoric[grid, 0].sqrt()),
        },
    }


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def even_network(num_data: int, width: int) -> dict[str, float]:
    """The optimum of the objective, were the weights spread evenly over all units.

    A unit of a ReLU network is active for half of the inputs. Where the K units of each of the three hidden layers
    carry equal parts of the line, masks with rate p add the variance v = 3 p/(1-p) · (2/K) · E[(2x)²] to it, which
    costs log(1 + v)/2 nats per datum, and the entropy gives 3 K H(p)/N back. No prior on the weights enters.

    Args:
        num_data: Number of data, N.
        width: Units of each hidden layer, K.

    Returns:
        The best rate of the hidden layers, and the epistemic and aleatoric standard deviations there.

    Example:
        >>> even_network(10_000, 1024)["p"] > even_network(1_000_000, 1024)["p"]
        True
    """
    p = np.linspace(1e-4, 0.5, 50_000)
    variance = 3 * p / (1 - p) * 2 / width * SLOPE**2
    entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
    best = int((0.5 * np.log(NOISE**2 + variance) - 3 * width / num_data * entropy).argmin())
    epistemic = float(variance[best]) ** 0.5
    return {"p": float(p[best]), "epistemic": epistemic, "aleatoric": math.hypot(NOISE, epistemic)}


# Figures


def _draw_fits(series: Series) -> Drawing:
    """Data, mean and both bands, a panel for each number of data."""
    drawing = Drawing(figsize=(9, 5.6), layout="constrained")
    panels = drawing.subplots(2, 3, sharex=True, sharey=True)
    for ax, result in zip(panels.flat, series["runs"], strict=True):
        curve = {name: np.asarray(values) for name, values in result["curve"].items()}
        x, mean = curve["x"], curve["mean"]
        for name, colour, opacity in (("aleatoric", plots.BLUE, 0.16), ("epistemic", plots.ORANGE, 0.4)):
            band = 2 * curve[name]
            ax.fill_between(x, mean - band, mean + band, color=colour, alpha=opacity, linewidth=0, label=name)
        ax.plot(x, SLOPE * x + OFFSET, color=plots.INK, linewidth=1, linestyle=":", label="the line")
        ax.plot(x, mean, color=plots.ORANGE, linewidth=1.6, label="mean")
        ax.plot(result["data"]["x"], result["data"]["y"], ".", color=plots.INK, markersize=3, alpha=0.5, label="data")
        ax.set(xlim=(-4, 4), ylim=(-4, 20))
        _dress(ax, title=f"N = {result['num_data']:,}")
    drawing.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _draw_uncertainty(networks: list[Series]) -> Drawing:
    """Both standard deviations against the number of data, beside the published ends and the truth."""
    drawing = Drawing(figsize=(9, 4.4), layout="constrained")
    sizes = np.geomspace(SIZES[0], SIZES[-1], 40).round().astype(int)
    panels = drawing.subplots(1, 2)
    for ax, name in zip(panels, ("aleatoric", "epistemic"), strict=True):
        ax.axhline(NOISE if name == "aleatoric" else 0, color=plots.INK, linewidth=1, label="truth (unlimited data)")
        ax.plot(*zip(*PUBLISHED[name].items(), strict=True), "D--", color="grey", label="published (ends)")
        for series, colour in zip(networks, (plots.BLUE, plots.ORANGE), strict=True):
            units = f"{series['width']} units"
            optimum = [even_network(int(n), series["width"])[name] for n in sizes]
            ax.plot(SIZES, [run[name] for run in series["runs"]], "o-", color=colour, label=f"ours, {units}")
            ax.plot(SIZES, [run[name] for run in series["half_the_steps"]], "o--", color=colour, alpha=0.4)
            ax.plot(sizes, optimum, ":", color=colour, label=f"optimum, even weights, {units}")
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.03 if name == "epistemic" else 0.8, None))
        _dress(ax, title=f"{name} standard deviation")
    panels[0].plot([], [], "o--", color="grey", alpha=0.4, label="half the steps")
    entries = panels[0].get_legend_handles_labels()
    drawing.legend(*entries, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return drawing


def _draw_rates(networks: list[Series]) -> Drawing:
    """The learned rate of each layer against the number of data, beside the published ends."""
    drawing = Drawing(figsize=(9, 4.4), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    for ax, series in zip(panels, networks, strict=True):
        for layer, (label, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
            ax.plot(SIZES, [run["rates"][layer] for run in series["runs"]], "o-", color=colour, label=f"ours, {label}")
            half = [run["rates"][layer] for run in series["half_the_steps"]]
            ax.plot(SIZES, half, "o--", color=colour, alpha=0.4, markersize=4)
        for name, style in (("hidden", "D--"), ("input", "s")):
            sizes, rates = zip(*PUBLISHED[name].items(), strict=True)
            ax.plot(sizes, rates, style, color="grey", label=f"published, {name} (1024 units)")
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.02, 0.54))
        _dress(ax, title=f"{series['width']} units")
    panels[0].set_ylabel("drop probability p")
    panels[0].plot([], [], "o--", color="grey", alpha=0.4, label="half the steps")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return drawing


def _dress(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10.5, loc="left")
    ax.grid(alpha=0.15)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


# Page


def _page(wide: Series, narrow: Series) -> Page:
    ours, small, n = wide["runs"][-1], narrow["runs"][-1], SIZES[-1]
    return Page(
        title="A noisy line",
        lead=(
            f"The true noise is {NOISE:.2f}. From {n:,} points a network of {wide['width']} units takes it for "
            f"{ours['aleatoric']:.2f} and is itself unsure by {ours['epistemic']:.2f}; published are "
            f"{PUBLISHED['aleatoric'][n]:.2f} and {PUBLISHED['epistemic'][n]:.2f}. With {narrow['width']} units the "
            f"same settings give {small['aleatoric']:.2f} and {small['epistemic']:.2f}."
        ),
        body=[
            Figure("line-fits", f"{wide['width']} units. {FITS}"),
            Figure("line-fits-narrow", f"{narrow['width']} units. {FITS}"),
            Figure("line-uncertainty", UNCERTAINTY),
            Figure("line-rates", "Learned rates against the number of data. Good are rates that fall as data grow."),
            _table(wide),
            _table(narrow),
        ],
        notes=_notes(wide, narrow),
    )


FITS = (
    "Mean, and bands of two standard deviations, for each number of data N; at most 100 points are drawn. Good is a "
    "mean on the dotted line, a blue band of the same width everywhere, and an orange one that is narrow where there "
    "are data."
)
UNCERTAINTY = (
    "Standard deviations, averaged as variances over the inputs, against the number of data. Good is an aleatoric part "
    "at the truth and an epistemic part that falls. Dotted: where the objective is lowest if all units carry equal "
    "parts."
)


def _table(series: Series) -> Table:
    rows = []
    for half, run, even in zip(series["half_the_steps"], series["runs"], series["even_network"], strict=True):
        cells = [f"{run['num_data']:,}"]
        for name in ("aleatoric", "epistemic"):
            theirs = PUBLISHED[name].get(run["num_data"])
            cells.append("–" if theirs is None else f"{theirs:.2f}")
            cells += [f"{each[name]:.3f}" for each in (run, half, even)]
        rows.append([*cells, f"{run['error']:.3f}", *(f"{p:.3f}" for p in run["rates"])])
    heads = ("published", "ours", "half the steps", "optimum, even weights")
    columns = ["N", *(f"{name} SD, {head}" for name in ("aleatoric", "epistemic") for head in heads)]
    first, last = (series["runs"][i]["steps"] for i in (0, -1))
    caption = f"{series['width']} units, {first:,} to {last:,} steps. The published network has 1024 units."
    columns.append("RMS error of the mean")
    return Table(caption, [*columns, *(f"p of {layer}" for layer in LAYERS)], rows)


def _notes(wide: Series, narrow: Series) -> list[str]:
    floor = wide["even_network"][-1]
    return [
        "Published: stored runs of the authors of Concrete Dropout (Gal, Hron & Kendall 2017, arXiv:1705.07832, "
        "Fig. 1), of which the ends of the range are known.",
        *(_converged(series) for series in (wide, narrow)),
        "The noise that a network learns contains that of its own masks, because each term of the objective sees one "
        "mask: aleatoric² is about 1 + epistemic². The aleatoric part reaches the truth only as the epistemic part "
        "goes to 0.",
        "The error of the mean is known here, and the epistemic SD should not be below it. Where it is, the network is "
        "too sure: rates that have gone to 0 leave no doubt about a line that is still a little wrong.",
        f"With {wide['width']} units and {SIZES[-1]:,} points the epistemic part has a floor that is no lack of "
        "training. The entropy of the masks of three layers pays for rates as long as N is not far above the number "
        f"of units: even with weights spread evenly the objective is lowest at rates of {floor['p']:.2f} and an "
        f"epistemic SD of {floor['epistemic']:.2f}. With {narrow['width']} units the floor is "
        f"{narrow['even_network'][-1]['epistemic']:.2f}.",
    ]


def _converged(series: Series) -> str:
    pairs = list(zip(series["half_the_steps"], series["runs"], strict=True))
    last = {name: abs(pairs[-1][1][name] - pairs[-1][0][name]) for name in ("aleatoric", "epistemic")}
    most = {name: max(abs(full[name] - half[name]) for half, full in pairs) for name in last}
    return (
        f"{series['width']} units: against half the steps the aleatoric and the epistemic SD differ by "
        f"{last['aleatoric']:.3f} and {last['epistemic']:.3f} at N = {SIZES[-1]:,}, and by at most "
        f"{most['aleatoric']:.3f} and {most['epistemic']:.3f} at any N."
    )
