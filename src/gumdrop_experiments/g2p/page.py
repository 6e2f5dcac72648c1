"""The page of `g2p`."""

from collections.abc import Iterator, Sequence

from gumdrop_experiments.g2p import PUBLISHED
from gumdrop_experiments.g2p.spelling import UNCERTAINTIES
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.page import Figure, Page, Table

CURVES = "Held-out scores of each setting of the report's network over training, and where rates went."
DISAGREEMENT = "Test words in ten groups by disagreement: good are bars that rise. Dotted: all words."
SETTLED = {
    "nll": "loss in training, nats",
    "validation_nll": "held-out loss, nats",
    "validation_hamming": "Hamming distance, held-out words",
}
NOTES = (
    "Hamming distance: positions that differ from the nearest way of the dictionary, the shorter filled up, averaged "
    "over words. The report does not say how it counts; its figures are .82 (fixed .1) and .96 (its learned dropout, "
    "whose regulariser was never added to the loss).",
    "The ways to say a word come from a beam search without dropout. Drawn functions then say how probable each is; "
    "the disagreement is the mutual information between function and next phone, summed over the most probable way. "
    "The literature has 23 to 25 % of words wrong for LSTM networks, on another split.",
)


def page(results: Plain) -> Page:
    """Hold learned rates against fixed ones, for both networks."""
    readers = results["pooled"]
    judged = {variant: each["judged"] for variant, each in results["spellers"].items()}
    seeds = {variant: each["judged"] for variant, each in results["further_seeds"].items()}
    body: list[Figure | Table] = []
    if readers:
        body += [_pooled_table(readers), *_settled_table(readers), Figure("g2p-pooled", CURVES)]
    if judged:
        body += [
            _errors_table(judged | seeds),
            Figure("g2p-doubt", DISAGREEMENT),
            Figure("g2p-spellers", "The network with attention: loss and rates over training."),
            *(_examples_table(variant, each["examples"]) for variant, each in judged.items()),
        ]
    return Page(
        title="From letters to phones (CMUdict)",
        lead=" ".join([*_readers_in_words(readers), *_spellers_in_words(judged)]),
        body=body,
        notes=[_protocol(results["data"]), *NOTES],
    )


def _readers_in_words(readers: Plain) -> Iterator[str]:
    if readers:
        found = ", ".join(f"{each['hamming']['no_draws']:.2f} ({name})" for name, each in readers.items())
        yield f"Phones of a word that the report's network gets wrong: {found}."


def _spellers_in_words(judged: Plain) -> Iterator[str]:
    for variant, each in judged.items():
        yield (
            f"With attention ({variant}): {100 * each['draws']['wer']:.1f} % of the words wrong; the "
            f"disagreement of drawn functions announces them with an AUROC of "
            f"{_number(each['auroc']['disagreement on phones'])}."
        )


def _protocol(data: Plain) -> str:
    return (
        f"Pronunciations: {data['train']:,} to train with, of which {data['trained']:,} were, {data['validation']:,} "
        f"held out, {data['test']:,} of the test part, of which {data['tested']:,} words were tested. A word goes to "
        "its part by its SHA-256, with all its pronunciations. Right is what the dictionary has for it."
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _pooled_table(readers: Plain) -> Table:
    rows = []
    for name, each in readers.items():
        distance = each["hamming"]
        losses = each["history"]["validation_nll"]
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
    rows.append(
        ["none of the best five right, %", *(f"{100 - 100 * e['any_of_the_best']:.1f}" for e in judged.values())]
    )
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
