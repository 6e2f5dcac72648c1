"""Finding the rows of one class: how well its probability ranks them, and what cuts of it come to."""

import numpy as np
from sklearn.metrics import precision_recall_curve

from gumdrop.machine.picking import evenly
from gumdrop.tables.results import FitResults, Threshold
from gumdrop.views import plots
from gumdrop.views.html import percent
from gumdrop.views.report.rows import TestRows, auroc_interval, wilson
from gumdrop.views.svg import TIPS, svg


def ranking_view(results: FitResults, test: TestRows) -> dict[str, object] | None:
    """How well the probability of a class ranks the rows; of two classes with cuts, and their 95 % intervals."""
    given = results.ranking
    if given is None:
        return None
    low, high = auroc_interval(given.auroc, given.rows, given.other_rows)
    share = given.rows / (given.rows + given.other_rows)
    cuts = [_cut(each, given.rows) for each in given.thresholds]
    curve = _curve(test, given.name, share, given.thresholds[-1], given.rows) if cuts else None
    return {**vars(given), "low": low, "high": high, "share": share, "cuts": cuts, "svg": curve}


def _cut(given: Threshold, rows: int) -> dict[str, object]:
    """Shares of right ones among rows that are taken for the class, None where none are, and of rows of the class."""
    precision = (given.found / given.flagged, *wilson(given.found, given.flagged)) if given.flagged else None
    return {"given": given, "precision": precision, "recall": (given.found / rows, *wilson(given.found, rows))}


def _curve(test: TestRows, name: str, share: float, cut: Threshold, rows: int) -> object:
    """Precision against recall over all thresholds."""
    sure = test.columns["probability"].astype(float)
    probability = np.where(test.columns["predicted"] == name, sure, 1 - sure)
    precision, recall, thresholds = precision_recall_curve(test.columns["observed"] == name, probability)
    marked = (cut.found / rows, cut.found / cut.flagged) if cut.flagged else None
    ax = plots.precision_recall(recall, precision, chance=share, cut=marked)
    tips = [
        (r, p, f"probability {t:.2f} or more: precision {percent(p)}, recall {percent(r)}")
        for r, p, t in ((recall[i], precision[i], thresholds[i]) for i in evenly(len(thresholds), TIPS))
    ]
    return svg(ax, "ranking", f"Precision against recall of {name}", tips)
