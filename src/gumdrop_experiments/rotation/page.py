"""The page of `rotation`."""

import statistics

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.rotation.figures import TITLES, UNCERTAINTIES

SCATTER = (
    "A test image of a 1 (number 9978), turned. Each point is one drawn function: what goes into the softmax for the "
    "three classes that come out on top, and what comes out. Good is a spread that overlaps where the answer changes."
)
ENTROPY = (
    "The entropy of the averaged prediction, and its parts. Good is an entropy that rises where the answer changes. "
    "The mutual information is the part that more data would remove."
)
TELLING = (
    "Digits told from pictures that are none: area under the curve (AUROC) of each kind of uncertainty; 1 is perfect."
)
NOTES = (
    "After the example of Gal & Ghahramani 2016, who show this digit to LeNet with dropout of 0.5 and give no figures.",
    "Pictures that are none are made of digits: pixels in one random order; left halves of digits beside right halves "
    "of others, some of which happen to be digits; and negatives. A folder of idx files (letters, clothes) can be "
    "given with --others.",
)


def page(results: Plain) -> Page:
    """Say where the answers change, and how uncertain they are there."""
    networks = results["networks"].items()
    return Page(
        title="A digit that turns",
        lead=" ".join(f"{TITLES[name]}: {_sentence(results['angles'], network)}" for name, network in networks),
        body=[Figure("rotation", SCATTER), Figure("rotation-entropy", ENTROPY), _table(results)],
        notes=[*NOTES, *(_about(name, network) for name, network in networks)],
    )


def _sentence(angles: list[int], network: Plain) -> str:
    label, entropy = network["turning"]["label"], network["turning"]["predictive_entropy"]
    changes = [i for i in range(1, len(label)) if label[i] != label[i - 1]]
    if not changes:
        return f"the answer is {label[0]} at every angle; the entropy is {max(entropy):.2f} nats at most."
    at = ", ".join(f"{angles[i]}° ({label[i - 1]} to {label[i]})" for i in changes)
    around = [entropy[j] for i in changes for j in (i - 1, i)]
    return (
        f"the answer changes at {at}; the entropy is {statistics.fmean(around):.2f} nats on average on both sides of "
        f"these changes, and {statistics.fmean(entropy):.2f} over all angles."
    )


def _about(name: str, network: Plain) -> str:
    rates = ", ".join(f"{p:.3f}" for p in network["rates"])
    return (
        f"{TITLES[name]}: {network['epochs']} epochs, {network['accuracy']:.2%} of the test images, learned p {rates}."
    )


def _table(results: Plain) -> Table:
    rows = [
        [TITLES[name], kind, *(f"{scores[score]:.3f}" for score in UNCERTAINTIES)]
        for name, network in results["networks"].items()
        for kind, scores in network["telling"].items()
    ]
    return Table(TELLING, ["network", "pictures", *(label for label, *_ in UNCERTAINTIES.values())], rows)
