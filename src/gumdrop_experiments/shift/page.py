"""The page of `shift`."""

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, dress, legend_of, log_ticks, subplots, with_error
from gumdrop_experiments.rates.results import ELBO, GRID, HELD_OUT, OFF
from gumdrop_experiments.shift.study import ALL, LABELS, PLAIN, SHIFTS, SIZES

CAPTION = """Test NLL of images as they are (left end of each panel) and at five steps of three shifts; single
networks above, the mean of five, and ensembles below. Lower is better. The grid, which is one of the fixed rates, is
not drawn."""
NOTES = (
    "All ways share the network (784-128-128-10, ReLU), the prior N(0, 1) on each weight, initial weights, folds and "
    "number of steps; each network keeps its best epoch on a fifth of the images, which it does not train on. These "
    "images also choose the grid's rate and the strength (.25, 1 or 4); a single network chooses by its own fifth.",
    "The last row costs what the choice of the strength costs: three times as many networks are trained.",
    """Standard errors of ensembles are over test images, and do not hold what another training would change; those
    of single networks are over five networks.""",
)

LOOKS = {
    OFF: (INK, "-"),
    PLAIN: (INK, ":"),
    "0.1": (GREY, "-"),
    "0.2 / 0.5": (GREEN, "-"),
    ELBO: (BLUE, "-"),
    HELD_OUT: (ORANGE, "-"),
}
"""Ways that are drawn; the grid is one of them."""


def page(results: Plain) -> Page:
    """Say what each way is worth where images change."""
    on = results["ensemble"]["gain_on"]
    gains, plain = on[OFF], on[PLAIN]
    lead = f"""Over all shifts an ensemble with learned rates gains {gains[ELBO][ALL][0]:+.3f} nats per image on one
    without dropout by the ELBO, and {gains[HELD_OUT][ALL][0]:+.3f} with the strength that held-out images chose;
    fixed rates gain {gains["0.1"][ALL][0]:+.3f} (.1) and {gains["0.2 / 0.5"][ALL][0]:+.3f} (.2 and .5). On an
    ensemble without dropout of three times as many networks the strength by held-out images gains
    {plain[HELD_OUT][ALL][0]:+.3f}."""
    body: list[Picture | Table] = [
        Picture("shift", CAPTION, _curves(results)),
        *(_scores(results, size) for size in SIZES),
        *(_gains(results, s) for s in SIZES),
    ]
    return Page("Digits that are turned, blurred and noisy", lead, body, [*NOTES, _chosen(results)])


def _chosen(results: Plain) -> str:
    chosen = results["chosen"]
    rates = "; ".join(f"{s}: {', '.join(f'{p:.3f}' for p in each)}" for s, each in results["rates"].items())
    return f"""Held-out images chose {LABELS[chosen["ensemble"][GRID]]} and the strength
    {chosen["ensemble"][HELD_OUT]:g} for ensembles; for single networks
    {", ".join(LABELS[way] for way in chosen["single"][GRID])}, and
    {", ".join(f"{s:g}" for s in chosen["single"][HELD_OUT])}. Learned rates by strength: {rates}."""


def _scores(results: Plain, size: str) -> Table:
    rows = []
    for way, by_step in results[size]["by_step"].items():
        clean = by_step[next(iter(SHIFTS))][0]
        cells = [f"{clean['nll']:.3f}", f"{clean['accuracy']:.2%}"]
        for name in SHIFTS:
            mean = results[size]["mean"][way][name]
            cells += [f"{mean['nll']:.3f}", f"{mean['accuracy']:.1%}", f"{mean['ece']:.3f}"]
        rows.append([LABELS[way], *cells])
    head = [f"{name}: {score}" for name in SHIFTS for score in ("NLL", "accuracy", "ECE")]
    caption = f"{SIZES[size].capitalize()}: scores of {results['test_images']:,} test images, means over five steps."
    return Table(caption, ["", "as they are: NLL", "accuracy", *head], rows, ours=_ours(rows))


def _gains(results: Plain, size: str) -> Table:
    on = results[size]["gain_on"]
    others = [other for other in on if other != OFF]
    rows = []
    for way, gain in on[OFF].items():
        gains = [*(gain[name] for name in (*SHIFTS, ALL)), *(on[other][way][ALL] for other in others)]
        rows.append([LABELS[way], *(with_error(pair, "+.3f") for pair in gains)])
    head = [*SHIFTS, "all three", *(f"on {LABELS[other]}" for other in others)]
    caption = f"{SIZES[size].capitalize()}: gain in log likelihood on {LABELS[OFF]}, nats per image (standard error)."
    return Table(caption, ["", *head], rows, ours=_ours(rows))


def _ours(rows: list[list[str]]) -> list[int]:
    return [i for i, row in enumerate(rows) if row[0] in (LABELS[ELBO], LABELS[HELD_OUT])]


def _curves(results: Plain) -> Figure:
    drawing, panels = subplots(len(SIZES), len(SHIFTS), sharex="col", sharey=True, size=(9, 6))
    for row, (size, title) in enumerate(SIZES.items()):
        for ax, (name, shift) in zip(panels[row], SHIFTS.items(), strict=True):
            for way, (colour, style) in LOOKS.items():
                if way in results[size]["by_step"]:
                    nll = [each["nll"] for each in results[size]["by_step"][way][name]]
                    ax.plot(results["steps"][name], nll, style, marker="o", markersize=3, color=colour, linewidth=1.4)
            log_ticks(ax, 1, 2, 5)
            ax.set_xticks(results["steps"][name], [f"{step:g}" for step in results["steps"][name]])
            ax.tick_params(labelsize=9)
            dress(ax, title=f"{title}: {name}", x=shift.label if row else "")
        panels[row, 0].set_ylabel("test NLL, nats per image")
    legend_of(drawing, {LABELS[way]: {"color": colour, "linestyle": line} for way, (colour, line) in LOOKS.items()}, 3)
    return drawing
