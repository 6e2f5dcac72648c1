"""The page of `injected`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.injected.far import DISTANCE, FAR
from gumdrop_experiments.injected.study import AS_IT_IS, ENSEMBLE, FITTED, TEMPERATURE, WAYS
from gumdrop_experiments.pages import (
    GREY,
    Cell,
    Page,
    Picture,
    cell,
    dots,
    edges_of,
    panels_of,
    table_of,
    with_error,
)

LEAST_EDGE = 1e-3
"""Of an axis along which all gains may be 0."""
GAINS = """Gain in test log likelihood on the temperature alone (of numbers: on noise of one level), seed by seed,
with its standard error; further right is better. Orange: `fit_rates`. Grey: an ensemble, at as many times the cost."""
AUROC = """The same for the area under the curve by which doubt tells rows that are like none of the data: columns
mixed over rows, words mixed over sentences, test pictures turned, blurred or noisy, streets upside down in inverted
colours."""
FAR_ROWS = """Area under the curve by which scores tell rows that are like none of the data, with standard errors. The
distance of `fit_rates` comes from held-out rows, densities and neighbours of the last layer's features from all
training rows."""
NOTES = (
    """AdamW in one cycle on squared errors or cross-entropies, without a thought of rates. Tables: three hidden
    layers of 128, no dropout; 8 x 8 digits: a CNN without dropout, 300 held-out images; MNIST: 5,000 images, a CNN
    with the dropout of tutorials (.25, .5), tested on 1,000 images and their changed twins; SST: an LSTM with
    dropout of .3, and a BERT of two layers of 128 with .1; CamVid: an FC-DenseNet without dropout on crops of 48
    pixels, whose likelihood is that of a pixel.""",
    """Held-out rows, never trained on, choose all that is chosen: temperatures, the injected rate (.005 to .5), the
    prior precision of a Laplace approximation of the last layer (.01 to 10,000, the whole Gauss-Newton matrix), and
    what `fit_rates` keeps. Networks with dropout of their own have it injected where it is, others in front of all
    layers.""",
    "Doubt is the predictive entropy of classes, and the variance of numbers.",
)


def page(results: Plain) -> Page:
    """Say what rates gain for networks that are trained."""
    networks = results["networks"]
    tables = [
        table_of(_caption(name, found), _named(found), _cells(found), ours=lambda way: way == WAYS[FITTED])
        for name, found in networks.items()
    ]
    drawn = [
        Picture("injected", GAINS, _gains(networks, "log_likelihood_gain")),
        Picture("injected-auroc", AUROC, _gains(networks, "auroc_gain")),
    ]
    ways = {FAR[way]: each for way, each in _far(networks).items()}
    cells: dict[str, Cell] = {name: _auroc(name) for name in networks}
    far = table_of(FAR_ROWS, ways, cells, ours=lambda way: way == FAR[DISTANCE])
    return Page("Rates for networks that are trained", _lead(results), [*drawn, far, *tables], NOTES)


def _far(networks: Plain) -> dict[str, Plain]:
    """Results of each way by network."""
    return {way: {name: each["far"].get(way) for name, each in networks.items()} for way in FAR}


def _auroc(name: str) -> Callable[[Plain], str]:
    return lambda of_way: "–" if of_way[name] is None else with_error(of_way[name]["auroc"])


def _named(results: Plain) -> dict[str, Plain]:
    return {WAYS[way]: scores for way, scores in results["ways"].items()}


def _caption(name: str, results: Plain) -> str:
    kept = ", ".join(f"{what} {count} times" for what, count in results["ways"][FITTED]["kept"].items())
    share = results["share_of_training"][0]
    return f"{name}: mean and standard error over seeds. `fit_rates` kept: {kept}; it took {share:.0%} of a training."


def _cells(results: Plain) -> Plain:
    calibration = "ECE" if AS_IT_IS in results["ways"] else "in 90 % intervals"
    cells = {"log likelihood": cell("log_likelihood", error=True)}
    cells |= {"gain (SE)": cell("log_likelihood_gain", "+.3f", error=True)}
    cells |= {"AUROC": cell("auroc", error=True), calibration: cell("calibration", error=True)}
    changed = {"of changed pictures": cell("shifted", error=True)} if "shifted" in results["ways"][FITTED] else {}
    return cells | changed


def _lead(results: Plain) -> str:
    count = results["counts"]
    return f"""Of {count["networks"]} trained networks, rates by held-out rows are within .002 nats of the best other
    way of one network, or above it, on {count["near"]}, and above it by .01 on {count["ahead"]}; they are behind the
    temperature alone by more than .002 on {count["behind temperature"]}. Doubt tells strange rows better, by .02 of
    the area under the curve, on {count["found"]}."""


def _look(way: str) -> Plain:
    return {"color": {WAYS[FITTED]: ORANGE, WAYS[ENSEMBLE]: GREY}.get(way, BLUE)}


def _gains(networks: Plain, score: str) -> Figure:
    drawing, panels = panels_of(list(networks), 2, panel=(4.4, 2.0), margin=1.0)
    for name, ax in panels.items():
        ways = {way: each[score] for way, each in _named(networks[name]).items() if way != WAYS[TEMPERATURE]}
        low, high = edges_of(list(ways.values()))
        dots(ax, ways, (min(low, -0.1 * abs(high)), max(high, LEAST_EDGE)), "+.3f", look=_look)
        ax.axvline(0, color=INK, linewidth=1, linestyle=":", zorder=0)
    drawing.supxlabel("gain on the temperature alone, each panel on a scale of its own", fontsize=9)
    return drawing
