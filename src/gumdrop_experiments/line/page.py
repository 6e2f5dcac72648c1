"""The page of `line`."""

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.line import PUBLISHED
from gumdrop_experiments.line.figures import LAYERS
from gumdrop_experiments.line.study import NOISE, SIZES
from gumdrop_experiments.pages.page import Figure, Page, Table

FITS = (
    "Mean, and bands of two standard deviations, for each number of data N; at most 100 points are drawn. Good is a "
    "mean on the dotted line, a blue band of the same width everywhere, and an orange one that is narrow where there "
    "are data."
)
UNCERTAINTY = (
    "Standard deviations, averaged as variances over the inputs, against the number of data. Good is an aleatoric part "
    "at the truth and an epistemic part that falls. Dotted: where the objective is lowest if all units carry equal "
    "parts."
)


def page(results: Plain) -> Page:
    """Say how near the noise that is learned comes to the truth."""
    wide, narrow = results["networks"]
    ours, small, n = wide["runs"][-1], narrow["runs"][-1], SIZES[-1]
    return Page(
        title="A noisy line",
        lead=(
            f"The true noise is {NOISE:.2f}. From {n:,} points a network of {wide['width']} units takes it for "
            f"{ours['aleatoric']:.2f} and is itself unsure by {ours['epistemic']:.2f}; published are "
            f"{PUBLISHED['aleatoric'][n]:.2f} and {PUBLISHED['epistemic'][n]:.2f}. With {narrow['width']} units the "
            f"same settings give {small['aleatoric']:.2f} and {small['epistemic']:.2f}."
        ),
        body=[
            Figure("line-fits", f"{wide['width']} units. {FITS}"),
            Figure("line-fits-narrow", f"{narrow['width']} units. {FITS}"),
            Figure("line-uncertainty", UNCERTAINTY),
            Figure("line-rates", "Learned rates against the number of data. Good are rates that fall as data grow."),
            _table(wide),
            _table(narrow),
            _strengths(wide),
            _strengths(narrow),
        ],
        notes=_notes(wide, narrow),
    )


def _table(series: Plain) -> Table:
    rows = []
    for half, run, even in zip(series["half_the_steps"], series["runs"], series["even_network"], strict=True):
        cells = [f"{run['num_data']:,}"]
        for name in ("aleatoric", "epistemic"):
            theirs = PUBLISHED[name].get(run["num_data"])
            cells.append("–" if theirs is None else f"{theirs:.2f}")
            cells += [f"{each[name]:.3f}" for each in (run, half, even)]
        rows.append([*cells, f"{run['error']:.3f}", *(f"{p:.3f}" for p in run["rates"])])
    heads = ("published", "ours", "half the steps", "optimum, even weights")
    columns = ["N", *(f"{name} SD, {head}" for name in ("aleatoric", "epistemic") for head in heads)]
    first, last = (series["runs"][i]["steps"] for i in (0, -1))
    caption = f"{series['width']} units, {first:,} to {last:,} steps. The published network has 1024 units."
    columns.append("RMS error of the mean")
    return Table(caption, [*columns, *(f"p of {layer}" for layer in LAYERS)], rows)


def _strengths(series: Plain) -> Table:
    rows = []
    for result in series["held_out"]:
        for run in result["strengths"]:
            chosen = "chosen" if run["strength"] == result["chosen"] else ""
            numbers = [f"{run[name]:.3f}" for name in ("score", "aleatoric", "epistemic", "error")]
            cells = [f"{result['num_data']:,}", f"{run['strength']:g}", chosen, *numbers]
            rows.append([*cells, *(f"{p:.3f}" for p in run["rates"])])
    caption = (
        f"{series['width']} units, two strengths of dropout, half the steps, trained on four fifths of the points. The "
        "other fifth chooses, by its log likelihood; 1 is the ELBO."
    )
    columns = ["N", "strength", "", "held-out LL", "aleatoric SD", "epistemic SD", "RMS error of the mean"]
    return Table(caption, [*columns, *(f"p of {layer}" for layer in LAYERS)], rows)


def _notes(wide: Plain, narrow: Plain) -> list[str]:
    floor = wide["even_network"][-1]
    return [
        "Published: stored runs of the authors of Concrete Dropout (Gal, Hron & Kendall 2017, arXiv:1705.07832, "
        "Fig. 1), of which the ends of the range are known.",
        *(_converged(series) for series in (wide, narrow)),
        "The noise that a network learns contains that of its own masks, because each term of the objective sees one "
        "mask: aleatoric² is about 1 + epistemic². The aleatoric part reaches the truth only as the epistemic part "
        "goes to 0.",
        "The error of the mean is known here, and the epistemic SD should not be below it. Where it is, the network is "
        "too sure: rates that have gone to 0 leave no epistemic uncertainty about a line that is still a little wrong.",
        f"With {wide['width']} units and {SIZES[-1]:,} points the epistemic part has a floor that is no lack of "
        "training. The entropy of the masks of three layers pays for rates as long as N is not far above the number "
        f"of units: even with weights spread evenly the objective is lowest at rates of {floor['p']:.2f} and an "
        f"epistemic SD of {floor['epistemic']:.2f}. With {narrow['width']} units the floor is "
        f"{narrow['even_network'][-1]['epistemic']:.2f}.",
    ]


def _converged(series: Plain) -> str:
    pairs = list(zip(series["half_the_steps"], series["runs"], strict=True))
    last = {name: abs(pairs[-1][1][name] - pairs[-1][0][name]) for name in ("aleatoric", "epistemic")}
    most = {name: max(abs(full[name] - half[name]) for half, full in pairs) for name in last}
    return (
        f"{series['width']} units: against half the steps the aleatoric and the epistemic SD differ by "
        f"{last['aleatoric']:.3f} and {last['epistemic']:.3f} at N = {SIZES[-1]:,}, and by at most "
        f"{most['aleatoric']:.3f} and {most['epistemic']:.3f} at any N."
    )
