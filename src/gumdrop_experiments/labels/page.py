"""The page of `labels`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.labels import PUBLISHED, PUBLISHED_RUN
from gumdrop_experiments.labels.study import WAYS
from gumdrop_experiments.pages import GREY, Page, Picture, Table, band, dress, legend_below, log_ticks, subplots

CURVES = """Mean over seeds, with a band of one standard error where there are several; thin lines stand at 90 and 95
%. Good is an accuracy that rises early, and a likelihood that falls with it."""
COLUMNS = (
    "way to ask",
    "seeds",
    "labels to 90 %",
    "to 95 %",
    "NLL at 95 %",
    "at the end: labels",
    "accuracy",
    "NLL",
    "published: labels to 90 %",
    "to 95 %",
)
NOTES = (
    """As in the source: 20 labels at first, two of each digit; a network of two convolutions of 32 and 64 channels
    and 128 dense units, trained anew in each round by Adam at 1e-3 in epochs of 5,056 digits, until three epochs
    tell no more of 1,024 held-out digits right; fixed rates of .5. It counts labels by the median of six runs.""",
    """What differs: rows are chosen from some of the pool, drawn anew in each round (`--pool`), where the source
    looks at all of it; a fifth of the functions that choose also test. Learned rates stand in front of the second
    convolution and of both dense layers, start at .1, and are trained by the negative ELBO under the library's prior
    for classes; in front of the first dense layer they drop single units, where the fixed network drops channels.""",
    """The likelihood is that of the mean over drawn functions. The source's record has about .43 nats where 95 % are
    right.""",
)

TITLES = {"mnist": "each digit once", "repeated": "each digit three times, with noise"}
SCORES = {"accuracy": "share of test digits right", "nll": "negative log likelihood, nats per digit"}
COLOURS = {"none": plots.INK, "fixed": plots.ORANGE, "learned": plots.BLUE}
LINES = {"BatchBALD": "-", "BALD": "--", "BALD one at a time": "-.", "random": ":", "entropy": "--"}


def page(results: Plain) -> Page:
    """Say how many labels each way needs, and how good its probabilities are."""
    body: list[Picture | Table] = []
    for pool, ways in results["pools"].items():
        body += [Picture(f"labels-{pool}", CURVES, _curves(pool, ways)), _table(pool, ways, results["test_images"])]
    return Page("Which digits to label next", _lead(results), body, NOTES)


def _lead(results: Plain) -> str:
    said = []
    for pool, ways in results["pools"].items():
        end = {name: (each["curve"]["labels"][-1], each["curve"]["nll"][-1]) for name, each in ways.items()}
        best = min(end, key=lambda name: end[name][1])
        said.append(
            f"""{TITLES[pool].capitalize()}: after {end[best][0]} labels the lowest negative log likelihood has
            {WAYS[best].label}, {end[best][1]:.3f} nats."""
        )
    return " ".join(said)


def _table(pool: str, ways: Plain, count: int) -> Table:
    rows = []
    for name, way in ways.items():
        half, most = way["goals"].values()
        curve = way["curve"]
        end = [f"{curve['labels'][-1]}", f"{curve['accuracy'][-1]:.3f}", f"{curve['nll'][-1]:.3f}"]
        theirs = ["–" if each is None else f"{each}" for each in PUBLISHED[pool].get(name, ())] or ["", ""]
        goals = zip((half, most, most), ("{labels:.0f}", "{labels:.0f}", "{nll:.3f}"), strict=True)
        cells = [*("–" if goal is None else form.format(**goal) for goal, form in goals), *end, *theirs]
        rows.append([WAYS[name].label, f"{way['seeds']}", *cells])
    caption = f"""{TITLES[pool].capitalize()}: median labels to a share of {count:,} test digits right, and negative
    log likelihood in nats; – is not reached."""
    ours = [i for i, name in enumerate(ways) if WAYS[name].rates == "learned"]
    return Table(caption, COLUMNS, rows, ours=ours)


def _curves(pool: str, ways: Plain) -> Figure:
    drawing, panels = subplots(1, 2, size=(11, 4.4))
    for ax, (score, title) in zip(panels, SCORES.items(), strict=True):
        for name, result in ways.items():
            way, curve = WAYS[name], result["curve"]
            mean, error = np.array(curve[score]), np.array(curve[f"{score}_error"])
            look: Plain = {"color": COLOURS[way.rates], "linestyle": LINES[way.choice], "label": way.label}
            band(ax, curve["labels"], mean, mean - error, mean + error, linewidth=1.3, **look)
        if pool == "mnist":
            label = "published, p = .5, BatchBALD, one run"
            ax.plot(PUBLISHED_RUN["labels"], PUBLISHED_RUN[score], "D", color=GREY, markersize=4, label=label)
        dress(ax, title=TITLES[pool], x="digits with a label", y=title, whole=True)
    log_ticks(panels[1], 1, 2, 5)
    for goal in (0.9, 0.95):
        panels[0].axhline(goal, color=plots.INK, linewidth=0.5)
    legend_below(drawing, panels[0], 4, 9)
    return drawing
