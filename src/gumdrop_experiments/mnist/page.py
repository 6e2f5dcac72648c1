"""The page of `mnist`."""

from collections.abc import Sequence

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.mnist.figures import KINDS, SCORES, mean_of
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

RATES = (
    "Learned drop probability of each layer against the number of training images, and over training on the most of "
    "them. Good are rates that fall as data grow."
)
CURVES = "Test scores, the mean over seeds. With draws: the average of drawn functions. Lower is better in each."
WIDTHS = "The same with other widths, one seed."
NOTES = (
    "Published: 98.6 % for learned rates (Gal, Hron & Kendall 2017, from memory), 98 % in a replication report, whose "
    "rates fall as the share of the training images grows.",
    "Fixed dropout has the same network, prior, steps and optimiser. Its two rates are chosen for each size on a sixth "
    "of its training images, and the networks that are scored train on all of them. Nothing is chosen on test images.",
    "Smaller sets are the beginnings of one shuffled list; each seed shuffles anew.",
)


def page(results: Plain) -> Page:
    """Say how good learned rates are, and how good searched ones."""
    last = results["sizes"][-1]
    learned, fixed = ({score: mean_of(last[kind], "drawn", score) for score in SCORES} for kind in ("learned", "fixed"))
    return Page(
        title="Learned dropout on MNIST",
        lead=(
            f"From {last['num_data']:,} images a network of {results['settings']['layers']} that learns its rates is "
            f"right on {learned['accuracy']:.2%} of {results['settings']['test_images']:,} test images, with an NLL "
            f"of {learned['nll']:.4f} and a calibration error of {learned['ece']:.4f}; with the best of the fixed "
            f"settings ({last['chosen']}) it is {fixed['accuracy']:.2%}, {fixed['nll']:.4f} and {fixed['ece']:.4f}."
        ),
        body=[
            Figure("mnist-rates", RATES),
            Figure("mnist-scores", CURVES),
            _table(results),
            _search_table(results),
            Figure("mnist-widths", WIDTHS),
        ],
        notes=NOTES,
    )


def _table(results: Plain) -> Table:
    rows = [
        _row(each["num_data"], name, [study[kind] for study in each[method]])
        for each in results["sizes"]
        for (method, kind), (name, *_) in KINDS.items()
    ]
    ours = [i for i, (_, name, *_) in enumerate(rows) if name == KINDS["learned", "drawn"][0]]
    columns = ["images", "", "accuracy", "NLL", "ECE", "Brier score"]
    seeds = len(results["sizes"][0]["learned"])
    caption = f"Test scores, the mean over {seeds} seed{'s' * (seeds > 1)} (standard error); NLL in nats per image."
    return Table(caption, columns, rows, ours=ours)


def _row(num_data: int, name: str, scores: Sequence[Plain]) -> list[str]:
    """Scores of one kind of prediction, over seeds."""
    found = {score: mean_and_error(each[score] for each in scores) for score in scores[0]}
    accuracy, its_error = found["accuracy"]
    nll, error = found["nll"]
    cells = [f"{num_data:,}", name, f"{accuracy:.2%} ({its_error:.2%})", f"{nll:.4f} ({error:.4f})"]
    return [*cells, *(f"{found[score][0]:.4f}" for score in ("ece", "brier"))]


def _search_table(results: Plain) -> Table:
    names = list(results["sizes"][0]["search"])
    rows = [[f"{each['num_data']:,}", *(f"{each['search'][n]['nll']:.4f}" for n in names)] for each in results["sizes"]]
    best = {(i, names.index(each["chosen"]) + 1) for i, each in enumerate(results["sizes"])}
    caption = "The search: NLL of the fixed settings (inputs / hidden units) on held-out training images."
    return Table(caption, ["images", *names], rows, best=best)
