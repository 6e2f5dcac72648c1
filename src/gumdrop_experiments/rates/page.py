"""The page of `rates`."""

from collections.abc import Mapping
from typing import Any

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.rates.results import ARM_LABELS, ELBO, GRID, HELD_OUT, LABELS, OFF

CAPTION = (
    "Regret: log likelihood of the test part that is lost on the best of all these ways for the table, nats per row, "
    "mean over splits. A dot for each table, hollow where test rows are a gap in an input; a bar to the worst table "
    "with test rows at random. Short bars are good: then nobody needs to know the table before."
)
LARGE_CAPTION = (
    "Large tables: gain in log likelihood of the test part on the grid, which trains six rates and takes the best on "
    "held-out rows; standard errors over test rows. Right of 0 is better than the grid. Fixed rates of .1 and more lie "
    "far to the left: see the tables."
)
ARMS_CAPTION = (
    "Gain in log likelihood of the test part over learned rates whose one strength is chosen by held-out rows: a dot "
    "for each table, mean over splits; a diamond for the mean over tables with its standard error. Right of 0 is "
    "better than the default."
)
NOTES = (
    "All ways share the networks (chosen by held-out rows of the training part, with the rates of the ELBO), the "
    "number of steps and of folds, and the noise on held-out rows; they differ in their rates alone. 'No dropout' and "
    "the fixed rates keep the prior on the weights. The grid takes of these the one with the best held-out log "
    "likelihood, at the cost of training all; the strength is chosen in the same way of .25, 1 and 4, and stays 1 "
    "where the gain is within one standard error.",
    "A single network is the first of the ensemble, with the noise of its own held-out rows. Gaps hold out the middle "
    "third of the rows in the order of one input. The best way is the best of the same test rows, so that regrets of a "
    "few thousandths may be chance: standard errors over splits are in the tables.",
    "Simulated tables of 40,000 rows and more, and MNIST, take 1,000 steps of 1,024 rows at most, where the default "
    "takes 2,500 and more; they have one split. MNIST is a table of its images at half their width and height. From "
    "10,000 rows on `gumdrop fit` does not choose a strength: its default is the ELBO's.",
)

TITLES = {"ensemble": "Ensembles", "single": "Single networks"}


def page(results: Mapping[str, Any]) -> Page:
    """Say what each way to a rate risks."""
    worst = results["ensemble"]["random"]["worst"]
    fixed = min((way for way in LABELS if way not in (OFF, ELBO, HELD_OUT, GRID)), key=lambda way: worst[way])
    lead = (
        f"The worst that learned rates lose on the best rate of a table is {worst[HELD_OUT]:.3f} nats per row where "
        f"held-out rows set their strength, and {worst[ELBO]:.3f} by the ELBO alone; no dropout loses up to "
        f"{worst[OFF]:.3f}, a grid {worst[GRID]:.3f}, and the best of the fixed rates, {fixed}, {worst[fixed]:.3f}."
    )
    if "gaps" in results["ensemble"]:
        gaps = results["ensemble"]["gaps"]["worst"]
        lead += (
            f" Where a stretch of an input is missing from training, learned rates lose up to {gaps[HELD_OUT]:.3f}, no "
            f"dropout {gaps[OFF]:.3f}."
        )
    body: list[Figure | Table] = [Figure("rates", CAPTION), _table(results, "ensemble")]
    body += [Figure("rates-single", CAPTION), _table(results, "single")]
    if "large" in results:
        body += [Figure("rates-large", LARGE_CAPTION), *(_large(results, size) for size in TITLES)]
    if "arms" in results:
        body += [Figure("rates-arms", ARMS_CAPTION), _arms(results["arms"], results["labels"])]
    return Page("What a rate risks", lead, body, NOTES)


def _large(results: Mapping[str, Any], size: str) -> Table:
    """Each way beside the grid on the large tables."""
    rows = []
    for name, table in results["large"][size].items():
        for way in LABELS:
            gain, error = table["gain"][way]
            cells = [f"{gain:+.4f} ({error:.4f})", f"{table['error'][way]:.4f}", f"{table['error_beside'][way]:+.2%}"]
            rows.append([f"{results['labels'][name]}: {LABELS[way]}", *cells])
    return Table(
        f"{TITLES[size]} on large tables: gain in log likelihood on the grid, nats per row (standard error over test "
        "rows); RMSE in standard deviations of the target, or share of wrong classes; how much more than the grid's",
        ["", "gain", "error", "beside the grid"],
        rows,
        ours=[i for i, row in enumerate(rows) if row[0].endswith((LABELS[ELBO], LABELS[HELD_OUT]))],
    )


def _arms(found: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    rows = [
        [labels[name], *(f"{table['gain'][way][0]:+.3f} ({table['gain'][way][1]:.3f})" for way in found["mean"])]
        for name, table in found["tables"].items()
    ]
    rows.append(
        ["mean, standard error over tables", *(f"{mean:+.3f} ({se:.3f})" for mean, se in found["mean"].values())]
    )
    rows += [[how, *(f"{gain:+.3f}" for gain in found[how].values())] for how in ("least", "greatest")]
    return Table(
        "Ensembles: gain in nats per row over one strength by held-out rows (standard error over splits)",
        ["", *((ARM_LABELS | LABELS)[way] for way in found["mean"])],
        rows,
        ours=[len(found["tables"])],
    )


def _table(results: Mapping[str, Any], size: str) -> Table:
    found = results[size]
    rows, best = [], []
    for i, (name, table) in enumerate(found["tables"].items()):
        chosen = ", ".join(f"{count} x {strength}" for strength, count in table["strengths"].items())
        regrets = [f"{table['regret'][way][0]:.3f} ({table['regret'][way][1]:.3f})" for way in LABELS]
        rates = ", ".join(f"{p:.3f}" for p in table["rates"])
        rows.append([results["labels"][name], f"{results['rows'][name]:,}", *regrets, chosen, rates])
        best.append((i, 2 + list(LABELS).index(table["best"])))
    for kind, what in (("random", "at random"), ("gaps", "gaps")):
        for how in ("worst", "mean") if kind in found else ():
            rows.append([f"{how}, {what}", "", *(f"{found[kind][how][way]:.3f}" for way in LABELS), "", ""])
    return Table(
        f"{TITLES[size]}: regret in nats per row (standard error over splits); strengths that were chosen, rates "
        "by layer",
        ["", "rows", *LABELS.values(), "strength", "p"],
        rows,
        ours=[len(found["tables"])],
        best=best,
    )
