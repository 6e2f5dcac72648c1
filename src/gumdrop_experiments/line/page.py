"""The page of `line`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.line import PUBLISHED
from gumdrop_experiments.line.study import NOISE, OFFSET, SIZES, SLOPE
from gumdrop_experiments.pages import GREY, Page, Picture, Table, dress, legend_below, subplots

FITS = """Mean, and bands of two standard deviations, for each number of data N; at most 100 points are drawn. Good
is a mean on the dotted line, a blue band of the same width everywhere, and an orange one that is narrow where there
are data."""
UNCERTAINTY = """Standard deviations, averaged as variances over the inputs, against the number of data. Good is an
aleatoric part at the truth and an epistemic part that falls; ours falls, below the published one. The table has half
the steps and the optimum of even weights beside it."""

RATES = "Learned rates against the number of data. Good are rates that fall as data grow."
LAYERS = ("input", "hidden 1", "hidden 2", "hidden 3")
ENDS = ("RMS error of the mean", *(f"p of {layer}" for layer in LAYERS))
"""Heads of the last columns."""
COLOURS = (plots.PALETTE[3], plots.BLUE, plots.GREEN, plots.ORANGE)


def page(results: Plain) -> Page:
    """Say how near the noise that is learned comes to the truth."""
    wide, narrow = results["networks"]
    ours, small, n = wide["runs"][-1], narrow["runs"][-1], SIZES[-1]
    lead = f"""The true noise is {NOISE:.2f}. From {n:,} points a network of {wide["width"]} units takes it for
    {ours["aleatoric"]:.2f} and is itself unsure by {ours["epistemic"]:.2f}; published are
    {PUBLISHED["aleatoric"][n]:.2f} and {PUBLISHED["epistemic"][n]:.2f}. With {narrow["width"]} units the same
    settings give {small["aleatoric"]:.2f} and {small["epistemic"]:.2f}."""
    body: list[Picture | Table] = [
        Picture("line-fits", f"{wide['width']} units. {FITS}", _fits(wide)),
        Picture("line-fits-narrow", f"{narrow['width']} units. {FITS}", _fits(narrow)),
        Picture("line-uncertainty", UNCERTAINTY, _uncertainty([wide, narrow])),
        Picture("line-rates", RATES, _rates([wide, narrow])),
        _table(wide),
        _table(narrow),
        _strengths(wide),
        _strengths(narrow),
    ]
    return Page("A noisy line", lead, body, _notes(wide, narrow))


def _table(series: Plain) -> Table:
    rows = []
    for half, run, even in zip(series["half_the_steps"], series["runs"], series["even_network"], strict=True):
        cells = [f"{run['num_data']:,}"]
        for name in ("aleatoric", "epistemic"):
            theirs = PUBLISHED[name].get(run["num_data"])
            cells += ["–" if theirs is None else f"{theirs:.2f}", *(f"{each[name]:.3f}" for each in (run, half, even))]
        rows.append([*cells, f"{run['error']:.3f}", *(f"{p:.3f}" for p in run["rates"])])
    heads = ("published", "ours", "half the steps", "optimum, even weights")
    columns = [f"{name} SD, {head}" for name in ("aleatoric", "epistemic") for head in heads]
    first, last = (series["runs"][i]["steps"] for i in (0, -1))
    caption = f"{series['width']} units, {first:,} to {last:,} steps. The published network has 1024 units."
    return Table(caption, ["N", *columns, *ENDS], rows)


def _strengths(series: Plain) -> Table:
    rows = []
    for result in series["held_out"]:
        for run in result["strengths"]:
            chosen = "chosen" if run["strength"] == result["chosen"] else ""
            numbers = (run["score"], run["aleatoric"], run["epistemic"], run["error"], *run["rates"])
            cells = [f"{result['num_data']:,}", f"{run['strength']:g}", chosen]
            rows.append([*cells, *(f"{number:.3f}" for number in numbers)])
    caption = f"""{series["width"]} units, two strengths of dropout, half the steps, trained on four fifths of the
    points. The other fifth chooses, by its log likelihood; 1 is the ELBO."""
    return Table(caption, ["N", "strength", "", "held-out LL", "aleatoric SD", "epistemic SD", *ENDS], rows)


def _notes(wide: Plain, narrow: Plain) -> list[str]:
    floor = wide["even_network"][-1]
    return [
        """Published: stored runs of the authors of Concrete Dropout (Gal, Hron & Kendall 2017, arXiv:1705.07832,
        Fig. 1), of which the ends of the range are known.""",
        *(_converged(series) for series in (wide, narrow)),
        """The noise that a network learns contains that of its own masks, because each term of the objective sees
        one mask: aleatoric² is about 1 + epistemic². The aleatoric part reaches the truth only as the epistemic part
        goes to 0.""",
        "The error of the mean is known here, and the epistemic SD should not be below it. Where it is, the network is "
        "too sure: rates that have gone to 0 leave no epistemic uncertainty about a line that is still a little wrong.",
        f"""With {wide["width"]} units and {SIZES[-1]:,} points the epistemic part has a floor that is no lack of
        training. The entropy of the masks of three layers pays for rates as long as N is not far above the number of
        units: even with weights spread evenly the objective is lowest at rates of {floor["p"]:.2f} and an epistemic
        SD of {floor["epistemic"]:.2f}. With {narrow["width"]} units the floor is
        {narrow["even_network"][-1]["epistemic"]:.2f}.""",
    ]


def _converged(series: Plain) -> str:
    pairs = list(zip(series["half_the_steps"], series["runs"], strict=True))
    last = {name: abs(pairs[-1][1][name] - pairs[-1][0][name]) for name in ("aleatoric", "epistemic")}
    most = {name: max(abs(full[name] - half[name]) for half, full in pairs) for name in last}
    return f"""{series["width"]} units: against half the steps the aleatoric and the epistemic SD differ by
    {last["aleatoric"]:.3f} and {last["epistemic"]:.3f} at N = {SIZES[-1]:,}, and by at most {most["aleatoric"]:.3f}
    and {most["epistemic"]:.3f} at any N."""


def _fits(series: Plain) -> Figure:
    drawing, panels = subplots(2, 3, sharex=True, sharey=True, size=(9, 5.6))
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
        dress(ax, title=f"N = {result['num_data']:,}", x="x", y="y").label_outer()
    legend_below(drawing, panels[0, 0], 5)
    return drawing


def _uncertainty(networks: list[Plain]) -> Figure:
    drawing, panels = subplots(1, 2, size=(9, 4.4))
    for ax, name in zip(panels, ("aleatoric", "epistemic"), strict=True):
        ax.axhline(NOISE if name == "aleatoric" else 0, color=plots.INK, linewidth=1, label="truth (unlimited data)")
        ax.plot(*zip(*PUBLISHED[name].items(), strict=True), "D--", color=GREY, label="published, 1024 units (ends)")
        for series, colour in zip(networks, (plots.BLUE, plots.ORANGE), strict=True):
            found = [run[name] for run in series["runs"]]
            ax.plot(SIZES, found, "o-", color=colour, linewidth=1.8, label=f"ours, {series['width']} units")
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.03 if name == "epistemic" else 0.9, None))
        dress(ax, title=f"{name} standard deviation")
    legend_below(drawing, panels[0], 4, 9.5)
    return drawing


def _rates(networks: list[Plain]) -> Figure:
    drawing, panels = subplots(1, 2, sharey=True, size=(9, 4.4))
    for ax, series in zip(panels, networks, strict=True):
        for layer, (label, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
            ax.plot(SIZES, [run["rates"][layer] for run in series["runs"]], "o-", color=colour, label=f"ours, {label}")
            half = [run["rates"][layer] for run in series["half_the_steps"]]
            ax.plot(SIZES, half, "o--", color=colour, alpha=0.4, markersize=4)
        for name, style in (("hidden", "D--"), ("input", "s")):
            sizes, rates = zip(*PUBLISHED[name].items(), strict=True)
            ax.plot(sizes, rates, style, color="grey", label=f"published, {name} (1024 units)")
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.02, 0.54))
        dress(ax, title=f"{series['width']} units")
    panels[0].set_ylabel("drop probability p")
    panels[0].plot([], [], "o--", color="grey", alpha=0.4, label="half the steps")
    legend_below(drawing, panels[0], 4)
    return drawing
