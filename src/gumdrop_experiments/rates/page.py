"""The page of `rates`."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    GREY,
    Cell,
    Page,
    Picture,
    Table,
    cell,
    dress,
    legend_of,
    name_rows,
    subplots,
    table_of,
    with_error,
)
from gumdrop_experiments.rates.results import ARM_LABELS, ELBO, GRID, HELD_OUT, LABELS, OFF

CAPTION = """Regret: test log likelihood below that of the best of all these ways for the table, nats per row, mean
over splits. A dot for each table, hollow where test rows are a gap in an input; a bar to the worst table with test
rows at random. Short bars are good: then nobody needs to know the table before."""
LARGE_CAPTION = """Large tables: gain in log likelihood of the test part on the grid, which trains six rates and
takes the best on held-out rows; standard errors over test rows. Right of 0 is better than the grid. Fixed rates of
.1 and more lie far to the left: see the tables."""
ARMS_CAPTION = """Gain in log likelihood of the test part over learned rates whose one strength is chosen by held-out
rows: a dot for each table, mean over splits; a diamond for the mean over tables with its standard error. Right of 0
is better than the default."""
NOTES = (
    """All ways share the architecture (chosen by held-out rows of the training part, with the rates of the ELBO), the
    number of steps and of folds, and the noise on held-out rows. 'No dropout' and the fixed rates keep the prior on
    the weights. The grid takes of these the one with the best held-out log likelihood, at the cost of training all.
    With a held-out strength an ensemble has the networks of strength .25, those of 2 or all of both, whichever has the
    best held-out log likelihood: where it has both, it has twice as many networks as all other ways. One network has
    a strength of .25, 1 or 4, and 1 where the gain is within one standard error.""",
    """A single network is the first of the ensemble, with the noise of its own held-out rows. Gaps hold out the
    middle third of the rows in the order of one input. The best way is the best of the same test rows, so that
    regrets of a few thousandths may be chance: standard errors over splits are in the tables.""",
    """Simulated tables of 40,000 rows and more, and MNIST, take 1,000 steps of 1,024 rows at most, where the default
    takes 2,500 and more; they have one split. MNIST is a table of its images at half their width and height. From
    10,000 rows on `gumdrop fit` does not choose a strength: its default is the ELBO's.""",
)
TITLES = {"ensemble": "Ensembles", "single": "Single networks"}

MOST = 0.5
"""Nats that are shown; what loses more stands at the edge."""


def page(results: Plain) -> Page:
    """Say what each way to a rate risks."""
    worst = results["ensemble"]["random"]["worst"]
    fixed = min((way for way in LABELS if way not in (OFF, ELBO, HELD_OUT, GRID)), key=lambda way: worst[way])
    lead = f"""At worst, learned rates are {worst[HELD_OUT]:.3f} nats per row below the best rate of a table where
    held-out rows set their strength, {worst[ELBO]:.3f} by the ELBO alone; no dropout is up to {worst[OFF]:.3f}
    below, a grid {worst[GRID]:.3f}, and the best of the fixed rates, {fixed}, {worst[fixed]:.3f}."""
    if "gaps" in results["ensemble"]:
        gaps = results["ensemble"]["gaps"]["worst"]
        lead += f""" Where a stretch of an input is missing from training, learned rates lose up to
        {gaps[HELD_OUT]:.3f}, no dropout {gaps[OFF]:.3f}."""
    body: list[Picture | Table] = []
    for name, size in (("rates", "ensemble"), ("rates-single", "single")):
        body += [Picture(name, CAPTION, _regret(results, size)), _table(results, size)]
    if "large" in results:
        beside_grid = _beside_grid(results["large"], results["labels"])
        body += [Picture("rates-large", LARGE_CAPTION, beside_grid), *(_large(results, size) for size in TITLES)]
    if "arms" in results:
        arms = results["arms"], results["labels"]
        body += [Picture("rates-arms", ARMS_CAPTION, _gains(*arms)), _arms(*arms)]
    return Page("What a rate risks", lead, body, NOTES)


def _large(results: Plain, size: str) -> Table:
    records = {
        f"{results['labels'][name]}: {label}": {key: table[key][way] for key in ("gain", "error", "error_beside")}
        for name, table in results["large"][size].items()
        for way, label in LABELS.items()
    }
    cells: dict[str, Cell] = {"gain": cell("gain", "+.4f", error=True), "error": "{error:.4f}"}
    cells |= {"beside the grid": "{error_beside:+.2%}"}
    caption = f"""{TITLES[size]} on large tables: gain in log likelihood on the grid, nats per row (standard error
    over test rows); RMSE in standard deviations of the target, or share of wrong classes; how much more than the
    grid's"""
    return table_of(caption, records, cells, ours=lambda name: name.endswith((LABELS[ELBO], LABELS[HELD_OUT])))


def _arms(results: Plain, labels: Mapping[str, str]) -> Table:
    rows = [
        [labels[name], *(with_error(table["gain"][way], "+.3f") for way in results["mean"])]
        for name, table in results["tables"].items()
    ]
    rows.append(["mean, standard error over tables", *(with_error(pair, "+.3f") for pair in results["mean"].values())])
    rows += [[how, *(f"{gain:+.3f}" for gain in results[how].values())] for how in ("least", "greatest")]
    caption = "Ensembles: gain in nats per row over one strength by held-out rows (standard error over splits)"
    heads = ["", *((ARM_LABELS | LABELS)[way] for way in results["mean"])]
    return Table(caption, heads, rows, ours=[len(results["tables"])])


def _table(results: Plain, size: str) -> Table:
    of_size = results[size]
    rows, best = [], []
    for i, (name, table) in enumerate(of_size["tables"].items()):
        chosen = ", ".join(f"{count} x {strength}" for strength, count in table["strengths"].items())
        regrets = [with_error(table["regret"][way]) for way in LABELS]
        rates = ", ".join(f"{p:.3f}" for p in table["rates"])
        rows.append([results["labels"][name], f"{results['rows'][name]:,}", *regrets, chosen, rates])
        best.append((i, 2 + list(LABELS).index(table["best"])))
    for kind, what in (("random", "at random"), ("gaps", "gaps")):
        for how in ("worst", "mean") if kind in of_size else ():
            rows.append([f"{how}, {what}", "", *(f"{of_size[kind][how][way]:.3f}" for way in LABELS), "", ""])
    what = "strengths that were chosen, rates by layer"
    caption = f"{TITLES[size]}: regret in nats per row (standard error over splits); {what}"
    heads = ["", "rows", *LABELS.values(), "strength", "p"]
    return Table(caption, heads, rows, ours=[len(of_size["tables"])], best=best)


def _regret(results: Plain, size: str) -> Figure:
    of_size, labels, gaps = results[size], results["labels"], results["gaps"]
    ways = list(LABELS)[::-1]
    figure, axes = subplots(size=(9, 4.2))
    names = of_size["tables"]
    for i, way in enumerate(ways):
        colour = ORANGE if way == HELD_OUT else BLUE if way == ELBO else GREY
        worst = of_size["random"]["worst"][way]
        axes.barh(i, min(worst, MOST), color=colour, alpha=0.25, height=0.62)
        regrets = {name: table["regret"][way][0] for name, table in names.items()}
        for name, regret in regrets.items():
            look = {"markerfacecolor": "white"} if name in gaps else {"alpha": 0.8}
            axes.plot(min(regret, MOST), i, "o", color=colour, markersize=5, **look)
        last = max((name for name in names if name not in gaps), key=lambda name: regrets[name])
        widest = max(regrets, key=lambda name: regrets[name])
        said = f"{worst:.2f}, {labels[last]}"
        if widest != last:  # the bar ends before a hollow dot, beside which the words stand
            said += f"; {regrets[widest]:.2f}, {labels[widest]}"
        edge = min(regrets[widest], MOST)
        axes.annotate(said, (edge, i), (6, 0), textcoords="offset points", va="center", fontsize=8)
    name_rows(axes, [LABELS[way] for way in ways])
    axes.set_xticks([0, 0.1, 0.2, 0.3, 0.4, 0.5], ["0", "0.1", "0.2", "0.3", "0.4", "0.5 or more"], fontsize=8)
    title = f"What a rate risks: a dot for each table, hollow for gaps; a bar to the worst ({TITLES[size].lower()})"
    dress(axes, title=title, x="log likelihood below the best rate for the table, nats per row", xlim=(0, 1.75 * MOST))
    axes.axvline(0, color=INK, linewidth=1)
    return figure


def _beside_grid(results: Plain, labels: Mapping[str, str]) -> Figure:
    figure, panels = subplots(1, 2, sharex=True, sharey=True, size=(9, 1.2 + 0.6 * len(results["ensemble"])))
    ways = {OFF: GREY, ELBO: BLUE, HELD_OUT: ORANGE}
    for axes, (size, tables) in zip(panels, results.items(), strict=True):
        for i, table in enumerate(list(tables.values())[::-1]):
            for j, (way, colour) in enumerate(ways.items()):
                gain, error = table["gain"][way]
                axes.errorbar(gain, i + 0.22 * (1 - j), xerr=error, fmt="o", color=colour, markersize=4)
        axes.axvline(0, color=INK, linewidth=1)
        dress(axes, title=TITLES[size].lower(), x="gain in log likelihood on the grid, nats per row")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.tick_params(labelsize=8)
    name_rows(panels[0], [labels[name] for name in results["ensemble"]][::-1])
    figure.suptitle("Large tables: what is gained on a grid of six rates, with standard errors", fontsize=10)
    legend_of(figure, {LABELS[way]: {"color": colour, "marker": "o"} for way, colour in ways.items()}, len(ways))
    return figure


def _gains(results: Plain, labels: Mapping[str, str]) -> Figure:
    of_tables = {way: {n: table["gain"][way][0] for n, table in results["tables"].items()} for way in results["mean"]}
    ways = [way for way, gains in of_tables.items() if any(gains.values())][::-1]  # the one they are held against has 0
    figure, axes = subplots(size=(9, 0.8 + 0.42 * len(ways)))
    low, high = (end(gain for way in ways for gain in of_tables[way].values()) for end in (min, max))
    for i, way in enumerate(ways):
        gains = of_tables[way]
        colour = GREY if way in (OFF, GRID) else BLUE if way == ELBO else ORANGE
        axes.plot(list(gains.values()), [i] * len(gains), "o", color=colour, alpha=0.6)
        mean, error = results["mean"][way]
        axes.errorbar(mean, i, xerr=error, fmt="D", color=INK, markersize=5, capsize=3)
        worst = min(gains, key=lambda name: gains[name])
        said = f"{mean:+.3f} ({error:.3f}); worst {gains[worst]:+.3f}, {labels[worst]}"
        axes.annotate(said, (high + 0.1 * (high - low), i), va="center", fontsize=8)
    axes.axvline(0, color=INK, linewidth=1)
    name_rows(axes, [(ARM_LABELS | LABELS)[way] for way in ways])
    title = "Other ways to a rate: a dot for each table, a diamond for their mean and its standard error"
    dress(axes, title=title, xlim=(low - 0.05 * (high - low), high + 1.05 * (high - low)))
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    axes.set_xlabel("gain in log likelihood over one strength by held-out rows, nats per row", fontsize=9, loc="left")
    return figure
