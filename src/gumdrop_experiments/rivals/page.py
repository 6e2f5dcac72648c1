"""The page of `rivals`."""

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, cell, dots, dress, edges_of, legend_of, subplots
from gumdrop_experiments.tables.page import COST, COVERED, LABELS, PEERS, methods_table
from gumdrop_experiments.tables.study import OURS

CAPTION = """Test RMSE, and negative log likelihood of the Gaussian with the predicted mean and variance: mean and
standard error over seeds, less is better. Below the line: published means of five seeds. Numbers at the edge are too
far to show."""
NOTES = (
    """One split, train_test_split(test_size=0.2, random_state=0); inputs and target standardised by its training
    part. The seeds are those of the models, so a standard error says nothing of other splits. Nothing was chosen on
    the test part. Columns that are no inputs of the rentals: casual, registered, instant, dteday.""",
    """Published: the results in scikit-learn-contrib/bde (commit 4bcfcac1); their seconds are wall-clock time of
    another machine. * Its standard deviation is its RMSE on the test rows, a gift.""",
    "NLL is that of one Gaussian, as published; log likelihood is that of the predicted density, often a mixture.",
    *PEERS,
)

SCORES = {"rmse": "RMSE, SD of the target", "gaussian_nll": "NLL of the Gaussian, nats per row"}


def page(results: Plain) -> Page:
    """Say where ours stands on both tables."""
    lead = " ".join(_lead(name, each) for name, each in results.items())
    tables = [_table(name, each) for name, each in results.items()]
    return Page("Rivals", lead, [Picture("rivals", CAPTION, _scores(results)), *tables], NOTES)


def _lead(name: str, table: Plain) -> str:
    done = {key: summary for key, summary in table["methods"].items() if "failed" not in summary}
    if not done:
        return f"{name}: every method failed."
    best = min(done, key=lambda key: done[key]["gaussian_nll"][0])
    shown = [OURS, best] if OURS in done and best != OURS else [best]
    said = "; ".join(
        f"{LABELS[key]} {done[key]['gaussian_nll'][0]:.3f} and {done[key]['rmse'][0]:.3f}" for key in shown
    )
    published = min(table["published"].items(), key=lambda pair: pair[1][1])
    return f"{name}, NLL and RMSE: {said}; the best published, {published[0]}, {published[1][1]} and {published[1][0]}."


def _table(name: str, table: Plain) -> Table:
    cells = {
        "RMSE": cell("rmse", ".4f", error=True),
        "NLL": cell("gaussian_nll", error=True),
        "log likelihood": cell("log_likelihood"),
        "CRPS": cell("crps"),
        **COVERED,
        **COST,
    }
    caption = f"""{name}: {table["rows"]:,} rows, {table["columns"]} inputs, {table["seeds"]} seeds, in SD of the
    target; standard error in brackets; share of rows inside their intervals in %; seconds of one core to train and
    predict, and memory at most beside what was held before: medians over seeds"""
    theirs = [
        [f"published: {label}", f"{rmse}", f"{nll}", *[""] * 5, f"{seconds:g}", ""]
        for label, (rmse, nll, seconds) in table["published"].items()
    ]
    return methods_table(caption, table["methods"], cells, best=("NLL", "gaussian_nll", -1), published=theirs)


def _scores(results: Plain) -> Figure:
    heights = [len(each["methods"]) + len(each["published"]) for each in results.values()]
    size = 9.6, 0.27 * sum(heights) + 2.2
    figure, panels = subplots(len(results), 2, squeeze=False, sharey="row", height_ratios=heights, size=size)
    for row, (name, table) in zip(panels, results.items(), strict=True):
        for column, (axes, score) in enumerate(zip(row, SCORES, strict=True)):
            ours = {LABELS[key]: summary.get(score, "failed") for key, summary in table["methods"].items()}
            rows = ours | {f"published: {label}": (found[column], 0.0) for label, found in table["published"].items()}
            edges = edges_of([pair for pair in rows.values() if not isinstance(pair, str)], lower_is_better=True)
            dots(axes, rows, edges, ".3g", look=_look)
            axes.axhline(len(table["published"]) - 0.5, color=INK, linewidth=0.5)
            dress(axes, title="" if column else name, x=SCORES[score])
    looks = {"gumdrop": _look(LABELS[OURS]), "others in this run": _look(""), "published": _look("published: ")}
    legend_of(figure, {name: {"linestyle": "none", **look} for name, look in looks.items()}, 3)
    return figure


def _look(label: str) -> Plain:
    if label.startswith("published: "):
        return {"color": GREY, "marker": "D", "markerfacecolor": "none", "markersize": 5}
    return {"color": ORANGE if label == LABELS[OURS] else BLUE, "marker": "o", "markersize": 5}
