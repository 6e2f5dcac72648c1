"""The page of `rivals`."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, dot, legend_of, name_rows, subplots
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.page import COST, COVERED, PEERS, cell, methods_table
from gumdrop_experiments.tables.study import OURS

CAPTION = (
    "Test RMSE, and negative log likelihood of the Gaussian with the predicted mean and variance: mean and standard "
    "error over seeds, less is better. Below the line: published means of five seeds. Numbers at the edge are too far "
    "to show."
)
NOTES = (
    "One split, train_test_split(test_size=0.2, random_state=0); inputs and target standardised by its training part. "
    "The seeds are those of the models, so a standard error says nothing of other splits. Nothing was chosen on the "
    "test part. Columns that are no inputs of the rentals: casual, registered, instant, dteday.",
    "Published: the results in scikit-learn-contrib/bde (commit 4bcfcac1); their seconds are wall-clock time of "
    "another machine. * Its standard deviation is its RMSE on the test rows, a gift.",
    "NLL is that of one Gaussian, as published; log likelihood is that of the predicted density, often a mixture.",
    *PEERS,
)

SCORES = {"rmse": "RMSE, SD of the target", "gaussian_nll": "NLL of the Gaussian, nats per row"}


def page(results: Plain) -> Page:
    """Say where ours stands on both tables."""
    lead = " ".join(_lead(name, each) for name, each in results.items())
    tables = [_table(name, each) for name, each in results.items()]
    return Page("Rivals", lead, [Picture("rivals", CAPTION, _scores(results)), *tables], NOTES)


def _lead(name: str, each: Plain) -> str:
    done = {key: summary for key, summary in each["methods"].items() if "failed" not in summary}
    if not done:
        return f"{name}: every method failed."
    best = min(done, key=lambda key: done[key]["gaussian_nll"][0])
    shown = [OURS, best] if OURS in done and best != OURS else [best]
    said = "; ".join(
        f"{METHODS[key].label} {done[key]['gaussian_nll'][0]:.3f} and {done[key]['rmse'][0]:.3f}" for key in shown
    )
    published = min(each["published"].items(), key=lambda pair: pair[1][1])
    return f"{name}, NLL and RMSE: {said}; the best published, {published[0]}, {published[1][1]} and {published[1][0]}."


def _table(name: str, each: Plain) -> Table:
    cells = {
        "RMSE": cell("rmse", ".4f", error=True),
        "NLL": cell("gaussian_nll", error=True),
        "log likelihood": cell("log_likelihood"),
        "CRPS": cell("crps"),
        **COVERED,
        **COST,
    }
    caption = (
        f"{name}: {each['rows']:,} rows, {each['columns']} inputs, {each['seeds']} seeds, in SD of the target; "
        "standard error in brackets; share of rows inside their intervals in %; seconds of one core to train and "
        "predict, and memory at most beside what was held before: medians over seeds"
    )
    theirs = [
        [f"published: {label}", f"{rmse}", f"{nll}", *[""] * 5, f"{seconds:g}", ""]
        for label, (rmse, nll, seconds) in each["published"].items()
    ]
    return methods_table(caption, each["methods"], cells, best=("NLL", "gaussian_nll", -1), published=theirs)


def _scores(results: Plain) -> Figure:
    """Both scores of every method, and the published ones, a row for each table."""
    heights = [len(each["methods"]) + len(each["published"]) for each in results.values()]
    size = 9.6, 0.27 * sum(heights) + 2.2
    figure, panels = subplots(len(results), 2, squeeze=False, sharey="row", height_ratios=heights, size=size)
    for row, (name, table) in zip(panels, results.items(), strict=True):
        for column, (axes, score) in enumerate(zip(row, SCORES, strict=True)):
            _draw(axes, table, score, column)
            axes.set_title(name if column == 0 else "", fontsize=10, loc="left")
            axes.set_xlabel(SCORES[score], fontsize=8)
    marks = {
        "gumdrop": {"color": ORANGE, "marker": "o", "linestyle": "none"},
        "others in this run": {"color": BLUE, "marker": "o", "linestyle": "none"},
        "published": {"color": GREY, "marker": "D", "markerfacecolor": "none", "linestyle": "none"},
    }
    legend_of(figure, marks, 3)
    return figure


def _draw(axes: Axes, table: Plain, score: str, column: int) -> None:
    methods, published = table["methods"], {label: row[column] for label, row in table["published"].items()}
    means = [*(summary[score][0] for summary in methods.values() if score in summary), *published.values()]
    # The best two thirds in view.
    low, middle = min(means), sorted(means)[2 * len(means) // 3]
    high = middle + 0.5 * (middle - low)
    count = len(methods) + len(published)
    for row, (key, summary) in zip(range(count - 1, -1, -1), methods.items(), strict=False):
        if score not in summary:
            axes.annotate("failed", (low, row), fontsize=8, va="center", color=GREY)
            continue
        colour = ORANGE if key == OURS else BLUE
        dot(axes, summary[score][0], row, summary[score][1], (low, high), ".3g", color=colour, markersize=5)
    for row, value in enumerate(reversed(published.values())):
        look = {"color": GREY, "marker": "D", "markerfacecolor": "none", "markersize": 5, "capsize": 0}
        dot(axes, value, row, 0.0, (low, high), ".3g", **look)
    name_rows(axes, [*reversed(published), *(METHODS[key].label for key in reversed(methods))])
    axes.axhline(len(published) - 0.5, color=INK, linewidth=0.5)
    axes.set_xlim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.15)
