"""The page of `co2`."""

from collections.abc import Collection
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.co2 import KINDS, PUBLISHED
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Cell, Page, Picture, Table, dress, legend_below, subplots, table_of

RECORD = "The record less a straight line: black, the 272 months to learn from; green, what came to pass."
WHAT = """Each method's mean, and bands of two standard deviations: of the functions that were drawn (orange) and
with the noise on top (blue). """
KIND = {
    "scripts": "The networks of the tutorial's scripts: 4 hidden layers, p = .1.",
    "fixed": """Those that it describes: 5 hidden layers, p = .2. Good is a band that grows where there are no data;
    that of tanh units, which saturate, cannot.""",
    "learned": "Learned rates, and a kernel that knows of years and of a slow trend.",
    "narrow": "Learned rates with an eighth of the units, whose masks have an eighth of the entropy.",
    "held": "The same, but rates stay at .1 for the first half of the steps, and are let go then.",
}
FIT = """Left: the share of the seasons, what a running mean over a year takes away, that the function with averaged
weights explains on the months of training. Solid lines are ReLU, dashed ones tanh. All steps are on all months. A
cross: stopped before its last step."""
CHAINS = """Draws of the hyper-parameters, their autocorrelation, and intervals of highest density for each chain;
the dotted line is the estimate by the largest marginal likelihood. Good are chains that cannot be told apart."""
PROCESSES = {
    "squared-exponential": "GP, squared exponential",
    "sampled": "GP, squared exponential, sampled",
    "seasonal": "GP, seasonal kernel",
}
BESIDE = {"scripts": "sampled", "fixed": "sampled", "learned": "seasonal"}
"""The process that stands beside each kind of networks, where it was computed."""


def page(results: Plain) -> Page:
    """Say how much of the seasons the networks learn, how their bands grow, and what of the later record they hold."""
    there = kinds(results)
    body: list[Picture | Table] = [Picture("co2-record", RECORD, _record(results))]
    body += [Picture(f"co2-{kind}", WHAT + KIND[kind], _panels(results, kind)) for kind in there]
    body += [_table(results)]
    body += (
        [Picture("co2-fit", FIT, _fit(results["networks"], results["stopped"])), _networks(results)] if there else []
    )
    if "sampled" in results["processes"]:
        body += [Picture("co2-chains", CHAINS, hyper_parameters(results["processes"])), _parameters(results)]
    return Page(title="Extrapolating carbon dioxide", lead=_lead(results), body=body, notes=_notes(results))


def _lead(results: Plain) -> str:
    if not results["networks"]:
        return "Gaussian processes alone; no networks were asked for."
    best = max(results["networks"].values(), key=lambda each: each["looks"][-1]["seasons"])
    scored = _scores_of(results)
    first = max(scored, key=lambda label: scored[label]["log_likelihood"])
    return f"""After {best["looks"][-1]["step"]:,} steps {best["label"]} explains {best["looks"][-1]["seasons"]:.0%}
    of the seasons, the most of the networks. The highest log likelihood of what came to pass has {first},
    {scored[first]["log_likelihood"]:.2f} nats a month."""


def _scores_of(results: Plain) -> dict[str, Plain]:
    processes = results["processes"]
    rows = {label: processes[name]["later"] for name, label in PROCESSES.items() if name in processes}
    return rows | {each["label"]: each["later"] for each in results["networks"].values()}


def _table(results: Plain) -> Table:
    cells = {"log likelihood": "{log_likelihood:.3f}", "RMSE": "{rmse:.3f}"}
    cells |= {f"inside {level} %": f"{{coverage_{level}:.0%}}" for level in (50, 90, 95)}
    caption = f"""The 140 months after the last month of training, against what was measured: log likelihood in nats
    a month, error of the mean in units of the training targets ({results["record"]["scale_ppm"]:.2f} ppm), and the
    share inside central intervals."""
    return table_of(caption, _scores_of(results), cells, first="method", ours=lambda label: "learned" in label)


def _networks(results: Plain) -> Table:
    records = {
        each["label"]: each | {"last": each["looks"][-1], "published": PUBLISHED.get(name, "–")}
        for name, each in results["networks"].items()
    }
    cells: dict[str, Cell] = {
        "steps": "{last[step]:,}",
        "seasons explained": "{last[seasons]:.0%}",
        "half of them after": lambda each: next((f"{x['step']:,}" for x in each["looks"] if x["seasons"] >= 0.5), "–"),
        "RMSE in training": "{last[rmse]:.2f}",
        "SD at the last month": "{band_at_last:.2f}",
        "at the end": "{band_at_end:.2f}",
        "ratio": "{band_ratio:.1f}",
        "published": "{published}",
        "noise SD": "{noise:.2f}",
        "p, from first to last": lambda each: ", ".join(f"{p:.2f}" for p in each["rates"]),
    }
    caption = f"""What networks learned, and the SD of {results["settings"]["draws"]:,} drawn functions. Published:
    the SDs in the tutorial's own record, at x = 1.72 and 3.5, after 1,000,000 steps."""
    return table_of(caption, records, cells, first="network")


def _parameters(results: Plain) -> Table:
    sampled, point = results["processes"]["sampled"], point_estimate(results["processes"]["squared-exponential"])
    records = {name: one | {"point": point[name]} for name, one in sampled["parameters"].items()}
    cells = {
        "largest marginal likelihood": "{point:.4f}",
        "mean of draws (SD)": "{mean:.4f} ({std:.4f})",
        "R-hat": "{r_hat:.4f}",
        "effective draws": "{effective:,.0f}",
    }
    chains = sampled["chains"]
    caption = f"""Hyper-parameters of the squared exponential: {chains["chains"]} chains of {chains["draws"]:,} draws
    after {chains["warmup"]:,} of warm-up, {sampled["divergent"]} divergent; {sampled["seconds"]:.0f} seconds of
    processor time."""
    return table_of(caption, records, cells)


def _unfinished(results: Plain) -> list[str]:
    stopped = (results["networks"][name] for name in results["stopped"])
    after = "; ".join(f"{each['label']} after {each['looks'][-1]['step']:,} steps" for each in stopped)
    said = {"Stopped before the last step, and asked as they were": after, "Not trained": "; ".join(results["missing"])}
    return [f"{what}: {which}." for what, which in said.items() if which]


def _notes(results: Plain) -> list[str]:
    bfloat16 = ", in bfloat16 where that is safe" if results["settings"]["bfloat16"] else ""
    return [
        *_unfinished(results),
        f"""Networks: dropout in front of every layer but the first, Adam at 1e-4 on all months at once, as in the
        tutorial's scripts{bfloat16}. What differs from them: the loss is the likelihood with one learned noise
        variance under a weak prior (length scale .1) in place of the squared error, and steps are fewer. Learned
        rates start at .1.""",
        "Every network and process is asked at the tutorial's 523 points and at each later month.",
        """Priors of the sampled process, as in the tutorial's script: half-Cauchy with scales of .05 for the length
        scale, 1 for the amplitude and .1 for the noise. NUTS with a target acceptance of .95, all chains started at
        the prior medians.""",
        *(f"{PROCESSES[name]}: {each['kernel']}" for name, each in results["processes"].items() if "kernel" in each),
        f"The record: sha256 {results['record']['sha256']}. NOAA revises it now and then.",
    ]


def kinds(results: Plain) -> list[str]:
    """Say which kinds of networks there are."""
    return [kind for kind in KINDS if _of_kind(results, kind)]


def _of_kind(results: Plain, kind: str) -> list[Plain]:
    """List the networks of a kind; one that was stopped is none to draw beside the others."""
    trained = (name for name in results["networks"] if name not in results["stopped"])
    return [results["networks"][name] for name in trained if name.rpartition("-")[2] == kind]


def _record(results: Plain) -> Figure:
    drawing, ax = subplots(size=(10, 3))
    _data(ax, results)
    dress(ax, x="month, standardised", y="CO₂ less trend, standardised", legend=9)
    return drawing


def _panels(results: Plain, kind: str) -> Figure:
    x, process, networks = results["asked"], BESIDE.get(kind, ""), _of_kind(results, kind)
    grid = (2, 2) if len(networks) > 1 else (3, 1)
    drawing, axes = subplots(*grid, sharex=True, sharey=True, squeeze=False, size=(10, 1.2 + 2.5 * grid[0]))
    for ax in axes.flat:
        _data(ax, results)
        ax.set(xlabel="month, standardised", ylabel="CO₂ less trend, standardised")
        ax.label_outer()
    top, beside_process = 9.0, process in results["processes"]
    _averaged(axes[0, 0], x, networks[-1 if beside_process else 0])  # that of the tutorial is the tanh network
    if beside_process:
        curve = results["processes"][process]["curve"]
        _line(axes.flat[1], x, curve["mean"])
        _band(axes.flat[1], x, curve["mean"], curve["std"], plots.BLUE, "2 SD, noise included")
        dress(axes.flat[1], title=PROCESSES[process])
    else:
        _averaged(axes.flat[1], x, networks[-1])
    for ax, network in zip(axes.flat[2:], networks, strict=True):
        curve = network["curve"]
        _line(ax, x, curve["mean"])
        total = np.hypot(curve["epistemic"], network["noise"])
        _band(ax, x, curve["mean"], curve["epistemic"], plots.ORANGE, "2 SD of drawn functions")
        _band(ax, x, curve["mean"], total, plots.BLUE, "2 SD, noise included", inside=curve["epistemic"])
        dress(ax, title=f"drawn functions, {network['label']}")
        top = max(top, *(np.array(curve["mean"]) + 2.1 * total))
    axes[0, 0].set(xlim=(x[0], x[-1]), ylim=(-4.5, top))
    legend_below(drawing, axes.flat[2], 5)
    return drawing


def _averaged(ax: Axes, x: Any, network: Plain) -> None:
    _line(ax, x, network["curve"]["averaged"])
    dress(ax, title=f"weight averaging, {network['label']}")


def _data(ax: Axes, results: Plain) -> None:
    data = results["data"]
    ax.plot(data["x"], data["y"], "-", color=plots.INK, linewidth=0.7, label="record, trained on")
    ax.plot(data["later_x"], data["later_y"], "-", color=plots.GREEN, linewidth=0.9, label="record, later")
    ax.axvline(data["x"][-1], color=plots.INK, linewidth=0.8, linestyle=":")


def _line(ax: Axes, x: Any, y: Any) -> None:
    ax.plot(x, y, color=plots.ORANGE, linewidth=1.4, label="prediction", zorder=3)


def _band(ax: Axes, x: Any, mean: Any, std: Any, colour: str, label: str, *, inside: Any = 0.0) -> None:
    """Fill a band of two standard deviations; what another band inside it covers keeps its own colour."""
    middle, width, hole = np.asarray(mean), 2 * np.asarray(std), 2 * np.asarray(inside)
    for side, name in ((1, label), (-1, None)):
        ends = middle + side * hole, middle + side * width
        ax.fill_between(x, *ends, color=colour, alpha=0.25, linewidth=0, label=name)


def _fit(networks: Plain, stopped: Collection[str]) -> Figure:
    drawing, (seasons, errors, rates) = subplots(1, 3, size=(11, 3.6))
    colours = dict(zip(KINDS, (plots.INK, *plots.PALETTE), strict=False))
    for name, network in networks.items():
        activation, kind = name.split("-")
        look: Plain = {"color": colours[kind], "linestyle": "-" if activation == "relu" else "--", "linewidth": 1.2}
        steps = [each["step"] for each in network["looks"]]
        seasons.plot(steps, [100 * each["seasons"] for each in network["looks"]], label=network["label"], **look)
        errors.plot(steps, [each["rmse"] for each in network["looks"]], **look)
        if name in stopped:
            at, end = {"color": colours[kind], "marker": "X", "markersize": 8, "zorder": 4}, network["looks"][-1]
            seasons.plot(steps[-1], 100 * end["seasons"], **at)
            errors.plot(steps[-1], end["rmse"], **at)
        if kind in ("learned", "narrow", "held"):
            rates.plot(steps, [np.mean(each["rates"]) for each in network["looks"]], **look)
    dress(seasons, title="seasons explained, %", x="step").set_ylim(-10, 102)
    dress(errors, title="RMSE on the months of training", x="step").set_ylim(0, None)
    dress(rates, title="learned p, mean over layers", x="step").set_ylim(0, None)
    for ax in (seasons, errors, rates):
        ax.set(xscale="log", xlim=(10, None))
    legend_below(drawing, seasons, 4, 9)
    return drawing


def hyper_parameters(processes: Plain) -> Figure:
    """Draw trace, autocorrelation and forest of each hyper-parameter, a row each, and the point estimate."""
    sampled, point = processes["sampled"], point_estimate(processes["squared-exponential"])
    drawing, panels = subplots(len(point), 3, size=(11, 2.1 * len(point) + 0.6))
    for row, (name, value) in zip(panels, point.items(), strict=True):
        one = sampled["parameters"][name]
        every = sampled["chains"]["draws"] / len(one["trace"][0])
        for draws, lags, colour in zip(one["trace"], one["autocorrelation"], plots.PALETTE, strict=False):
            row[0].plot([every * i for i in range(len(draws))], draws, color=colour, linewidth=0.6, alpha=0.8)
            row[1].plot(lags, color=colour, linewidth=1.2)
        row[0].axhline(value, color=plots.INK, linewidth=0.8, linestyle=":")
        dress(row[0], title=f"{name}: trace", x="draw")
        dress(row[1], title="autocorrelation", x="lag").axhline(0, color=plots.INK, linewidth=0.5)
        _forest(row[2], one, value)
    return drawing


def point_estimate(process: Plain) -> dict[str, float]:
    """Read the hyper-parameters that a search for the largest marginal likelihood has found."""
    of = process["parameters"]
    return {
        "lengthscale": of["k1__k2__length_scale"],
        "amplitude": of["k1__k1__constant_value"] ** 0.5,
        "noise": of["k2__noise_level"] ** 0.5,
    }


def _forest(ax: Axes, one: Plain, point: float) -> None:
    intervals = one["intervals"]
    for i, ((low, high), colour) in enumerate(zip(intervals, plots.PALETTE, strict=False)):
        ax.plot([low, high], [i, i], color=colour, linewidth=3)
    ax.plot(one["mean"], len(intervals), "o", color=plots.INK, markersize=4)
    ax.axvline(point, color=plots.INK, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(intervals) + 1), [*(f"chain {i + 1}" for i in range(len(intervals))), "mean"], fontsize=8)
    ax.set_ylim(-0.6, len(intervals) + 0.6)
    dress(ax, title="94 % intervals", x=f"R-hat {one['r_hat']:.4f}, {one['effective']:,.0f} effective draws")
