"""The page of `g2p`."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.g2p import PUBLISHED, SPELLERS
from gumdrop_experiments.g2p.spelling import UNCERTAINTIES
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, Table, dress, subplots

CURVES = "Held-out scores of each setting of the report's network over training, and where rates went."
DISAGREEMENT = "Test words in ten groups by disagreement: good are bars that rise. Dotted: all words."
SPELLERS_SHOWN = "The network with attention: loss and rates over training."
SETTLED = {
    "nll": "loss in training, nats",
    "validation_nll": "held-out loss, nats",
    "validation_hamming": "Hamming distance, held-out words",
}
NOTES = (
    """Hamming distance: positions that differ from the nearest way of the dictionary, the shorter filled up,
    averaged over words. The report does not say how it counts; its figures are .82 (fixed .1) and .96 (its learned
    dropout, whose regulariser was never added to the loss).""",
    """The ways to say a word come from a beam search without dropout. Drawn functions then say how probable each is;
    the disagreement is the mutual information between function and next phone, summed over the most probable way.
    The literature has 23 to 25 % of words wrong for LSTM networks, on another split.""",
)

SCORES = {"validation_nll": "held-out loss, nats per word", "validation_hamming": "Hamming distance of held-out words"}
"""What is known of each epoch of the report's network: its distance only where it is trained as reported."""

LAYERS = {
    6: ("encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2", "phones"),
    8: (*(f"encoder {i} {way}" for i in (1, 2) for way in "→←"), "decoder", "query", "answer", "phones"),
}
"""What the sites of the report's network, and of that with attention, stand in front of."""


def page(results: Plain) -> Page:
    """Hold learned rates against fixed ones, for both networks."""
    readers = results["pooled"]
    judged = {variant: each["judged"] for variant, each in results["spellers"].items()}
    seeds = {variant: each["judged"] for variant, each in results["further_seeds"].items()}
    body: list[Picture | Table] = []
    if readers:
        body += [_pooled_table(readers), *_settled_table(readers), Picture("g2p-pooled", CURVES, _pooled(readers))]
    if judged:
        body += [
            _errors_table(judged | seeds),
            Picture("g2p-doubt", DISAGREEMENT, _disagreement(results)),
            Picture("g2p-spellers", SPELLERS_SHOWN, _spellers(results)),
            *(_examples_table(variant, each["examples"]) for variant, each in judged.items()),
        ]
    lead = " ".join([*_readers_in_words(readers), *_spellers_in_words(judged)])
    return Page("From letters to phones (CMUdict)", lead, body, [_protocol(results["data"]), *NOTES])


def _readers_in_words(readers: Plain) -> Iterator[str]:
    if readers:
        distances = ", ".join(f"{each['hamming']['no_draws']:.2f} ({name})" for name, each in readers.items())
        yield f"Phones of a word that the report's network gets wrong: {distances}."


def _spellers_in_words(judged: Plain) -> Iterator[str]:
    for variant, scores in judged.items():
        yield f"""With attention ({variant}): {100 * scores["draws"]["wer"]:.1f} % of the words wrong; the disagreement
        of drawn functions announces them with an AUROC of {_number(scores["auroc"]["disagreement on phones"])}."""


def _protocol(data: Plain) -> str:
    return f"""Pronunciations: {data["train"]:,} to train with, of which {data["trained"]:,} were,
    {data["validation"]:,} held out, {data["test"]:,} of the test part, of which {data["tested"]:,} words were
    tested. A word goes to its part by its SHA-256, with all its pronunciations. Right is what the dictionary has for
    it."""


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _pooled_table(readers: Plain) -> Table:
    rows = []
    for name, reader in readers.items():
        distance = reader["hamming"]
        losses = reader["history"]["validation_nll"]
        numbers = (distance["no_draws"], distance["draws"], min(losses), losses[-1])
        rows.append([name, *(f"{number:.3f}" for number in numbers), PUBLISHED.get(name, "–")])
    columns = ["rates", "Hamming distance, no draws", "10 draws", "held-out loss, best epoch, nats", "last epoch"]
    ours = [i for i, name in enumerate(readers) if name.startswith("learned")]
    return Table("The report's network, test words.", [*columns, "published distance"], rows, ours=ours)


def _settled_table(readers: Plain) -> Iterator[Table]:
    there = {name: each["last_epochs"] for name, each in readers.items() if "last_epochs" in each}
    rows = [
        [name, *(f"{mean:.3f} ({sd:.3f})" for mean, sd in (each[score] for score in SETTLED))]
        for name, each in there.items()
    ]
    if rows:
        yield Table("The last ten epochs: mean and standard deviation.", ["rates", *SETTLED.values()], rows)


def _errors_table(judged: Plain) -> Table:
    rows = []
    for how, name in (("no_draws", "beam search"), ("draws", "the same ways, ranked by draws")):
        rows.append([f"{name}: words wrong, %", *(f"{100 * each[how]['wer']:.1f}" for each in judged.values())])
        rows.append([f"{name}: phones wrong, %", *(f"{100 * each[how]['per']:.2f}" for each in judged.values())])
    missed = (100 - 100 * each["any_of_the_best"] for each in judged.values())
    rows.append(["none of the best five right, %", *(f"{share:.1f}" for share in missed)])
    for name in UNCERTAINTIES:
        rows.append([f"AUROC of wrong words: {name}", *(_number(each["auroc"][name]) for each in judged.values())])
    return Table("The network with attention, test words.", ["", *judged], rows)


def _examples_table(variant: str, examples: Sequence[Plain]) -> Table:
    rows = [
        [
            each["word"],
            "; ".join(f"{way} ({probability:.2f})" for way, probability in each["ways"]),
            " or ".join(each["truth"]),
            "wrong" if each["wrong"] else "right",
            f"{each['doubt']:.3f}",
        ]
        for each in examples
    ]
    columns = ["word", "best ways (probability)", "dictionary", "", "disagreement, nats"]
    return Table(f"{variant}: the test words with the most and with the least disagreement.", columns, rows)


def _pooled(readers: Plain) -> Figure:
    some = next(iter(readers.values()))["history"]
    scores = {name: title for name, title in SCORES.items() if name in some}
    learners = [name for name, reader in readers.items() if not name.startswith("fixed") and len(reader["rates"]) > 1]
    drawing = Figure(figsize=(12, 7.6), layout="constrained")
    above, below = drawing.subfigures(2, 1, squeeze=False)[:, 0]
    for ax, (score, title) in zip(above.subplots(1, len(scores), squeeze=False)[0], scores.items(), strict=True):
        for name, reader in readers.items():
            values = reader["history"][score]
            ax.plot(range(1, len(values) + 1), values, label=name, **_look(name))
        dress(ax, title=title, x="epoch", whole=True, legend=8)
    for ax, name in zip(below.subplots(1, len(learners), squeeze=False)[0], learners, strict=True):
        _draw_rates(readers[name]["rates"], ax, f"rates: {name}")
    return drawing


def _draw_rates(rates: dict[str, list[float]], ax: Axes, title: str) -> None:
    """Draw rates over training, by what a site stands in front of."""
    named = dict(zip(LAYERS[len(rates)], rates.values(), strict=True))
    plots.rates_over_training(range(1, len(named["phones"]) + 1), named, ax=ax)
    ax.set_title(title, fontsize=10.5, loc="left")
    ax.locator_params(axis="x", integer=True)


def _look(variant: str) -> Plain:
    """How the curve of a setting is drawn: the smaller a fixed rate, the darker."""
    if variant == "fixed 0":
        return {"color": plots.PALETTE[3], "linewidth": 1.3}
    if variant.startswith("fixed"):
        return {"color": plots.BLUE, "alpha": 1.2 - 2 * float(variant.removeprefix("fixed ")), "linewidth": 1.3}
    if variant == "broken":
        return {"color": plots.INK, "linestyle": "--", "linewidth": 1.5}
    return {"color": plots.ORANGE if variant == "learned" else plots.PALETTE[2], "linewidth": 2.2}


def _spellers(results: Plain) -> Figure:
    drawing, (curves, rates) = subplots(1, 2, size=(10, 3.8))
    for variant in (variant for variant in SPELLERS if variant in results["spellers"]):
        history = results["spellers"][variant]["history"]
        colour = plots.ORANGE if variant == "learned" else plots.BLUE
        epochs = range(1, len(history["nll"]) + 1)
        curves.plot(epochs, history["validation_nll"], color=colour, label=f"{variant}, held out")
        curves.plot(epochs, history["nll"], color=colour, linestyle=":", label=f"{variant}, in training")
    dress(curves, title="network with attention", x="epoch", y="nats per word").legend(fontsize=8, frameon=False)
    shown = "learned" if "learned" in results["spellers"] else "fixed 0.2"
    _draw_rates(results["spellers"][shown]["rates"], rates, f"its rates: {shown}")
    return drawing


def _disagreement(results: Plain) -> Figure:
    drawing, panels = subplots(1, len(results["spellers"]), sharey=True, squeeze=False, size=(10, 3.6))
    for ax, (variant, speller) in zip(panels[0], results["spellers"].items(), strict=True):
        disagreements = np.asarray(speller["judged"]["doubt"])
        wrong = np.asarray(speller["judged"]["wrong"], dtype=float)
        groups = np.array_split(np.argsort(disagreements, kind="stable"), min(10, len(disagreements)))
        heights = [100 * wrong[group].mean() for group in groups]
        colour = plots.BLUE if variant.startswith("fixed") else plots.ORANGE
        ax.bar(np.arange(len(groups)) + 0.5, heights, width=0.85, color=colour)
        ax.axhline(100 * wrong.mean(), color=plots.INK, linewidth=1, linestyle=":")
        ax.set_xticks([0, len(groups)], ["least", "most"])
        dress(ax, title=f"{variant}: wrong words by disagreement", x="disagreement of drawn functions")
    panels[0, 0].set_ylabel("words said wrong, %")
    return drawing
