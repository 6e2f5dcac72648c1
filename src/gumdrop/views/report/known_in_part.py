"""The page of a fit whose target is known in part: scores, survival curves, and how well they hold."""

from gumdrop.tables.results import LIKELIHOOD, Curves, FitResults
from gumdrop.views import plots
from gumdrop.views.html import Picture, Tile, number, template
from gumdrop.views.report.columns import spread_view
from gumdrop.views.report.training import rates_view, training_view
from gumdrop.views.svg import svg

CURVES = "Thick: the mean of all test rows. Dotted: their Kaplan-Meier estimate, which should agree with it. "
ROWS = "Colours: some test rows, from the smallest median to the largest, with what is known of each."
AT_TIMES = (
    "Test rows in groups, from the least probable to last to the most. On the diagonal as many last as the model says."
)
QUANTILES = (
    "How many test rows lie below each quantile of their prediction; one that is not seen counts in part. In the grey "
    "band chance explains the difference."
)


def known_in_part_page(results: FitResults, folder: str) -> str:
    """The page as text."""
    assert results.curves is not None, "a target that is known in part has curves"
    ours = next(score for score in results.scores if score.ours)
    blind = next((score for score in results.scores if score.unskilled), None)
    tiles = [
        Tile(number(value, 4), name, "" if blind is None else f"{number(blind.values.get(name), 4)} for {blind.name}")
        for name, value in ours.values.items()
    ]
    measures = list(ours.values)
    table = [
        (score.name, score.ours, [number(score.values.get(name), 4) for name in measures]) for score in results.scores
    ]
    worth = [(each.name, each.gains[LIKELIHOOD]) for each in results.columns.importance[:15]]
    return template("known_in_part.html.j2").render(
        **vars(results),
        folder=folder,
        tiles=tiles,
        measures=measures,
        models=table,
        worth=worth,
        spreads={each.name: spread_view(each) for each in results.columns.spreads},
        pictures=_pictures(results, results.curves),
        members=results.num_members,
        rates_drawn=rates_view(results),
        training=training_view(results),
    )


def _pictures(results: FitResults, curves: Curves) -> list[Picture]:
    name = f"{results.target.name}{f' ({results.target.unit})' if results.target.unit else ''}"
    rows = {f"row {each.row}: {each.known}": each.above for each in curves.rows}
    ax = plots.survival_curves(curves.values, rows, curves.mean, curves.whole, name=name)
    seen = (CURVES if curves.whole is not None else "Thick: the mean of all test rows. ") + ROWS
    pictures = [Picture(svg(ax, "curves", "Survival curves of some test rows and of all"), seen)]
    if curves.at:
        at = [(f"{number(each.time)}", each.expected, each.observed) for each in curves.at]
        told = f"{AT_TIMES} Each colour is a time: {', '.join(label for label, *_ in at)}."
        pictures.append(Picture(svg(plots.survival_calibration(at), "at", "Calibration at three times"), told))
    given = results.calibration
    expected, observed = ([value or 0.0 for value in values] for values in (given.expected, given.observed))
    labels = "share of rows that should be below", "share of rows that are below"
    ax = plots.calibration(expected, observed, rows=len(results.test.row), labels=labels)
    return [*pictures, Picture(svg(ax, "calibration", "Share of rows below each quantile"), QUANTILES)]
