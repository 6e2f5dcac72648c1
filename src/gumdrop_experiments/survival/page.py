"""The page of `survival`."""

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, dots, edges_of, panels_of
from gumdrop_experiments.survival.study import OURS, PEERS

CAPTION = "Integrated Brier score: mean and standard error over the splits. Less is better."
NOTES = (
    """Scores: gumdrop.metrics.integrated_brier between the .1 and the .9 quantile of the test times, weighted by the
    Kaplan-Meier estimate of the censoring of the test rows; Antolini's concordance; D-calibration over all folds of
    one order of the rows, where each row is tested once: below .05 the probabilities are off.""",
    """Ahead: the Brier score of the model less that of gumdrop in the same split, with its standard error. The
    splits share rows, so that it is a little too small.""",
    "The number of steps, and that held-out rows pick the epoch, were chosen with the first split of gbsg2 in sight.",
)
LEVEL = 0.05


def page(results: Plain) -> Page:
    """Say on how many sets ours is not behind."""
    ahead = {name: [each["methods"][peer]["ours_ahead"] for peer in PEERS] for name, each in results.items()}
    level = [name for name, gaps in ahead.items() if not any(gap < -error for gap, error in gaps)]
    off = [name for name, each in results.items() if min(each["methods"][OURS]["calibration"]) < LEVEL]
    lead = f"""Not behind Cox and the survival forest by more than a standard error in the integrated Brier score:
    {len(level)} of {len(results)} sets. D-calibration is not rejected on {len(results) - len(off)}."""
    tables = [_table(name, each) for name, each in results.items()]
    return Page("Survival times", lead, [Picture("survival", CAPTION, _figure(results)), *tables], NOTES)


def _table(name: str, table: Plain) -> Table:
    rows = []
    for label, scores in table["methods"].items():
        ahead = "" if label == OURS else "{:+.4f} ({:.4f})".format(*scores["ours_ahead"])
        p = " and ".join(f"{value:.3f}" for value in scores["calibration"])
        brier, order = ("{:.4f} ({:.4f})".format(*scores[score]) for score in ("brier", "concordance"))
        rows.append([label, brier, ahead, order, p, f"{scores['seconds']:.1f}"])
    caption = (
        f"{name}: {table['rows']:,} rows, {table['seen']:.0%} seen, {table['inputs']} inputs, {table['splits']} splits"
    )
    heads = ["", "integrated Brier score", "gumdrop ahead", "concordance", "D-calibration p", "seconds"]
    return Table(caption, heads, rows, [0])


def _figure(results: Plain) -> Figure:
    figure, panels = panels_of(list(results), 3, panel=(2.6, 1.6), margin=0.6, sharey=True)
    for name, ax in panels.items():
        rows = {label: found["brier"] for label, found in results[name]["methods"].items()}
        dots(ax, rows, edges_of(list(rows.values()), lower_is_better=True), ".3f", look=_look)
    return figure


def _look(label: str) -> Plain:
    colour = ORANGE if label == OURS else GREY if label == "Kaplan-Meier" else BLUE
    return {"color": colour, "marker": "o", "markersize": 5}
