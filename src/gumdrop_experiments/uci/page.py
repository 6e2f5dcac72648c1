"""The page of `uci`."""

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.uci import PUBLISHED
from gumdrop_experiments.uci.figures import shown
from gumdrop_experiments.uci.methods import METHODS
from gumdrop_experiments.uci.results import OURS, REFERENCE

CAPTIONS = {
    "uci-log-likelihood": "Test log likelihood, nats per row, higher is better: mean and standard error over splits. "
    "Lines: published.",
    "uci-rmse": "Test RMSE in units of the target, lower is better: mean and standard error over splits. Lines: "
    "published.",
    "uci-coverage": "Share of test rows inside their central intervals, less what it should be: 0 is calibrated; the "
    "band is the 88 to 92 % that was wanted of the 90 % interval. Gaps beyond 15 points stand as numbers.",
    "uci-rates": "Learned drop probability of each layer over the splits: a dot for each split, a bar at the median. "
    "Layer 1 drops inputs.",
    "uci-cost": "What a method gains over the grid search, against what it costs: rows through a network in training, "
    "as a ratio to the grid search. Up and left is better; what lies far below stands on the lower edge, see the "
    "tables.",
}
NOTES = (
    "All networks are 2 x 50 ReLU with the same batches and passes (about 2,500 steps), except the deep ensemble, "
    "which stops after 40 passes as published, and the schemes of two and three passes, which have three layers. "
    "Inputs and targets are standardised by the training part. The default holds out a tenth of the training rows for "
    "each member and sees no test row; its settings were chosen on training parts (docs/method.md).",
    "The grid search has the published rates .005, .01, .05, .1 and three noise precisions for each set, judged on a "
    "fifth of the training part, then trained on all of it. Its published figures come from 1 x 50 units and 4,000 "
    "passes.",
    "The p-value is that of a paired t-test over splits, corrected for the overlap of their training parts.",
)


def page(results: Plain) -> Page:
    """Say on how many sets nothing to tune beats a search."""
    figures = [Figure(name, CAPTIONS[name]) for name in shown(results)]
    tables = [_table(name, each) for name, each in results.items()]
    costs = [_cost_table(results)] if any(each["cost"] for each in results.values()) else []
    return Page("UCI regression", _lead(results), [*figures[:2], *tables, *figures[2:], *costs], NOTES)


def _lead(sets: Plain) -> str:
    if not all({OURS, REFERENCE} <= set(each["methods"]) for each in sets.values()):
        return f"{len(sets)} sets, each with its published splits."
    ours = [each["methods"][OURS] for each in sets.values()]
    better = sum(each["gain"] > 0 for each in ours)
    surely = sum(each["gain"] > 0 and (each["p_value"] or 1) < 0.05 for each in ours)
    return (
        f"Learned dropout with nothing to tune has a higher test log likelihood than a grid search over rate and noise "
        f"on {better} of {len(sets)} sets, beyond what splits do by chance on {surely}."
    )


def _table(name: str, each: Plain) -> Table:
    columns = ["", "RMSE", "log likelihood", "gain over grid (p)", "CRPS", "50 %", "90 %", "95 %", "row passes"]
    rows = [[METHODS[key].label, *_cells(summary)] for key, summary in each["methods"].items()]
    best = max(range(len(rows)), key=lambda i: list(each["methods"].values())[i]["log_likelihood"][0])
    sources = "published: clean grid", "published: Concrete Dropout"
    for label, published in zip(sources, PUBLISHED.get(name, []), strict=False):
        rows.append([label, published[0], published[1], *[""] * 6])
    if name in PUBLISHED:
        rows.append(["published: best network seen", "", PUBLISHED[name][0][2], *[""] * 6])
    caption = (
        f"{name}: mean over {each['splits']} splits, standard error in brackets; RMSE and CRPS in units of the target, "
        "log likelihood in nats per row, share of test rows inside the central 50, 90 and 95 % intervals, and rows "
        "through a network in training as a ratio to the grid search. * chosen with a view of test rows."
    )
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(best, 2)])


def _cells(summary: Plain) -> list[str]:
    def with_error(score: str, digits: int) -> str:
        mean, error = summary[score]
        return f"{mean:.{digits}f} ({error:.{digits}f})"

    digits = 3 if summary["rmse"][0] > 0.2 else 4
    gain = ""
    if "gain" in summary:
        gain = f"{summary['gain']:+.3f}" + ("" if summary["p_value"] is None else f" ({summary['p_value']:.2g})")
    coverage = [f"{100 * summary[f'coverage_{level}'][0]:.1f}" for level in (50, 90, 95)]
    cost = f"{summary['cost_ratio']:.3f}" if "cost_ratio" in summary else "1"
    return [
        with_error("rmse", digits),
        with_error("log_likelihood", 3),
        gain,
        f"{summary['crps'][0]:.{digits}f}",
        *coverage,
        cost,
    ]


def _cost_table(sets: Plain) -> Table:
    columns = ["", *sets]
    ratios = {
        "ensemble of 5, one program / grid of 12 and refit, in turn": ("ensemble", "grid_in_turn"),
        "one member / grid of 12 and refit, in turn": ("one_member", "grid_in_turn"),
        "ensemble of 5 / grid, each as one program": ("ensemble", "grid_as_one_program"),
        "all splits in turn / as one program": ("splits_in_turn", "splits_as_one_program"),
    }
    rows = [
        [label, *(f"{each['cost'][a] / each['cost'][b]:.2f}" if each["cost"] else "" for each in sets.values())]
        for label, (a, b) in ratios.items()
    ]
    return Table("Ratios of processor time in training, one split unless it says all, one thread", columns, rows)
