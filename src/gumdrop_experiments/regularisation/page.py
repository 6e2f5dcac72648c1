"""The page of `regularisation`."""

from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Cell, Page, Picture, Table, dress, subplots, table_of
from gumdrop_experiments.regularisation import PUBLISHED
from gumdrop_experiments.regularisation.study import LAST, NETWORKS, at_the_end

FIGURE = """Wrong test images after each epoch, on a logarithmic scale, without smoothing. Good is dropout that ends
below no dropout, and a learned twin that ends at or below the best fixed setting."""
TABLE = """Negative log likelihoods are in nats, that in training with dropout on, over the last epoch. The
tutorial's errors are means of epochs 191 to 200 → 1,491 to 1,500 of its own record, of LeNet the latter."""
NOTES = (
    """As in the tutorial: inputs in [0, 1], PyTorch's initialisation, batches of 128, plain gradient descent at a
    constant rate, .1 for the perceptrons, no weight decay, fixed masks on the pixels and the first hidden layer
    only. What differs: it trains for 1,500 epochs, here are fewer; and LeNet has a learning rate of .01 there and of
    .1 here, so that an epoch goes about as far as ten (`--lenet-lr 0.01 --lenet-epochs 1500` is as written).""",
    """Hinton et al. 2012, where the tutorial's settings come from, have 160 errors without dropout, 130 with half of
    the hidden units dropped and 110 with a fifth of the inputs dropped as well, after thousands of epochs, with a
    bound on the norm of weights, momentum and a falling learning rate (all from memory).""",
    """Learned rates: a site in front of every layer that reads more than one channel, the last included, as the
    method has it. All start at .5, where a posterior knows least, with a learning rate of 1, so that they follow the
    weights within epochs. The prior is the library's default for classes. LeNet's learned twin drops channels before
    the second convolution and single units before both dense layers, where the fixed one drops channels before the
    first of these.""",
    """Test images are only counted, never chosen on. Order of batches and seed of the weights are the same for all;
    one seed. Counts of about 100 errors have a standard deviation of about 10 by chance of the test images alone.""",
)

FAMILIES = {"perceptron": "dense, 2 x 800 tanh", "lenet": "LeNet"}
"""What the names of networks begin with, and the titles of their panels."""
STYLES = {
    "perceptron-none": (plots.INK, ":"),
    "perceptron-hidden": (plots.ORANGE, "--"),
    "perceptron-both": (plots.ORANGE, "-"),
    "perceptron-learned": (plots.BLUE, "--"),
    "perceptron-strength": (plots.BLUE, "-"),
    "lenet-none": (plots.INK, ":"),
    "lenet-half": (plots.ORANGE, "-"),
    "lenet-learned": (plots.BLUE, "--"),
    "lenet-strength": (plots.BLUE, "-"),
}


def page(results: Plain) -> Page:
    """Say how many errors each way of dropout leaves."""
    networks, count = results["networks"], results["test_images"]
    errors = "; ".join(f"{network['label']}: {at_the_end(network['errors']):.1f}" for network in networks.values())
    lead = f"Wrong answers among {count:,} test images, mean of the last {LAST} epochs: {errors}."
    tuned = [_strengths(network) for key, network in networks.items() if NETWORKS[key].tuned]
    body: list[Picture | Table] = [
        Picture("regularisation", FIGURE, _errors(networks)),
        _table(networks, count),
        *tuned,
    ]
    return Page("Dropout as a regulariser", lead, body, (*NOTES, _masks(results["masks"])))


def _table(networks: Plain, count: int) -> Table:
    records = {each["label"]: each | {"published": PUBLISHED.get(key, "–")} for key, each in networks.items()}
    learned = {networks[key]["label"] for key in networks if NETWORKS[key].learned}
    cells: dict[str, Cell] = {
        "epochs": lambda network: f"{len(network['errors'])}",
        f"errors, mean of last {LAST}": lambda network: f"{at_the_end(network['errors']):.1f}",
        "at the end": lambda network: f"{network['errors'][-1]}",
        "NLL on test images": lambda network: f"{network['test_nll'][-1]:.4f}",
        "NLL in training": lambda network: f"{network['train_nll'][-1]:.4f}",
        "tutorial's errors": "{published}",
        "learned p, from input to output": _rates,
    }
    caption = f"Wrong answers among {count:,} test images, dropout off. {TABLE}"
    return table_of(caption, records, cells, first="network", ours=learned.__contains__)


def _rates(network: Plain) -> str:
    over = network["rates_over_training"]
    return ", ".join(f"{p:.3f}" for p in over[-1]) if over else "–"


def _strengths(network: Plain) -> Table:
    scores = network["held_out_nll"]
    rows = [[strength, f"{nll:.4f}"] for strength, nll in scores.items()]
    caption = f"""{network["label"]}: negative log likelihood of held-out training images by strength, in nats, mean
    of the last {LAST} epochs. The lowest is chosen, and the network trained again on all training images."""
    ours = [list(scores).index(f"{network['strength']:g}")]
    return Table(caption, ("strength", "NLL on held-out images"), rows, ours)


def _masks(masks: Plain) -> str:
    return f"""The perceptron with both kinds of dropout was trained twice for {masks["steps"]} steps from the same
    random numbers, with masks from `nn.Dropout` and with masks by hand, x times a draw of 0 or 1 over 1 - p: the
    losses of a step differ by {masks["largest_difference"]:.1g} nats at most."""


def _ticks(low: float, high: float) -> list[int]:
    steps = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
    return [tick for power in range(4) for step in steps if low <= (tick := step * 10**power) <= high]


def _errors(networks: Plain) -> Figure:
    families = [family for family in FAMILIES if any(key.startswith(family) for key in networks)]
    drawing, panels = subplots(1, len(families), size=(5 * len(families), 4.6), squeeze=False)
    for ax, family in zip(panels[0], families, strict=True):
        curves = {key: networks[key]["errors"] for key in STYLES if key in networks and key.startswith(family)}
        for key, errors in curves.items():
            colour, style = STYLES[key]
            label = f"{networks[key]['label'].split(', ', 1)[1]}: {at_the_end(errors):.1f}"
            ax.plot(range(1, len(errors) + 1), errors, style, color=colour, label=label, linewidth=0.9)
        ax.set_yscale("log")
        # What the first epochs do is the same everywhere, and would press the rest together.
        low, high = min(map(min, curves.values())), max(errors[len(errors) // 20] for errors in curves.values())
        ax.set_ylim(0.93 * max(low, 1), 1.1 * max(high, 2))
        ticks = _ticks(*ax.get_ylim())
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(0, max(map(len, curves.values())) + 1)
        dress(ax, title=FAMILIES[family], x="epoch", y="wrong test images")
        heading = f"dropout: errors, mean of last {LAST}"
        ax.legend(frameon=False, title=heading, fontsize=9, title_fontsize=9, loc="upper right")
    return drawing
