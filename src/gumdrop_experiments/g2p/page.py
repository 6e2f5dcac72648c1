"""The page of `g2p`."""

from collections.abc import Sequence

from gumdrop_experiments.g2p import PUBLISHED
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["page"]


DISAGREEMENT = "Test words in ten groups by disagreement: good are bars that rise. Dotted: all words."
NOTES = (
    "Hamming distance: positions that differ from the nearest way of the dictionary, the shorter filled up, averaged "
    "over words. The report does not say how it counts; its figures are .82 (fixed .1) and .96 (its learned dropout, "
    "whose regulariser was never added to the loss).",
    "The ways to say a word come from a beam search without dropout. Drawn functions then say how probable each is; "
    "the disagreement is the mutual information between function and next phone, summed over the most probable way. "
    "The literature has 23 to 25 % of words wrong for LSTM networks, on another split.",
)


def page(results: Plain) -> Page:
    """Hold learned rates against the best of the fixed ones, for both networks."""
    judged = {variant: each["judged"] for variant, each in results["spellers"].items()}
    learned = judged["learned"]
    hamming = {name: each["hamming"]["no_draws"] for name, each in results["pooled"].items()}
    fixed = {name: value for name, value in hamming.items() if name.startswith("fixed")}
    best = min(fixed, key=lambda name: fixed[name])
    return Page(
        title="From letters to phones (CMUdict)",
        lead=(
            f"The report's network gets {hamming['learned']:.2f} phones of a word wrong with learned rates, "
            f"{fixed[best]:.2f} with the best of the fixed ones ({best}), {hamming['broken']:.2f} in the report's "
            f"broken setting. A network with attention says {100 * learned['draws']['wer']:.1f} % of the words wrong "
            f"with learned rates and {100 * judged['fixed 0.2']['draws']['wer']:.1f} % with fixed ones of 0.2; the "
            f"disagreement of drawn functions announces wrong words with an AUROC of "
            f"{_number(learned['auroc']['disagreement on phones'])} and "
            f"{_number(judged['fixed 0.2']['auroc']['disagreement on phones'])}."
        ),
        body=[
            _pooled_table(results),
            Figure("g2p-pooled", "Held-out loss of each setting of the report's network, and where rates went."),
            _errors_table(judged),
            Figure("g2p-doubt", DISAGREEMENT),
            Figure("g2p-spellers", "The network with attention: loss and learned rates over training."),
            *(_examples_table(variant, each["examples"]) for variant, each in judged.items()),
        ],
        notes=[_protocol(results), *NOTES],
    )


def _protocol(results: Plain) -> str:
    data, tested = results["data"], results["spellers"]["learned"]["judged"]["words"]
    return (
        f"Pronunciations: {data['train']:,} to train with, {data['validation']:,} held out, {data['test']:,} of the "
        f"test part, of which {tested:,} words were tested. A word goes to its part by its SHA-256, with all its "
        "pronunciations. Right is what the dictionary has for it."
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _pooled_table(results: Plain) -> Table:
    rows = []
    for name, each in results["pooled"].items():
        distance = each["hamming"]
        loss = min(each["history"]["validation_nll"])
        rows.append(
            [name, f"{distance['no_draws']:.3f}", f"{distance['draws']:.3f}", f"{loss:.3f}", PUBLISHED.get(name, "–")]
        )
    columns = ["rates", "Hamming distance, no draws", "10 draws", "held-out loss, nats", "published distance"]
    return Table("The report's network, test words.", columns, rows, ours=[len(rows) - 1])


def _errors_table(judged: Plain) -> Table:
    rows = []
    for how, name in (("no_draws", "beam search"), ("draws", "the same ways, ranked by draws")):
        rows.append([f"{name}: words wrong, %", *(f"{100 * each[how]['wer']:.1f}" for each in judged.values())])
        rows.append([f"{name}: phones wrong, %", *(f"{100 * each[how]['per']:.2f}" for each in judged.values())])
    rows.append(
        ["none of the best five right, %", *(f"{100 - 100 * e['any_of_the_best']:.1f}" for e in judged.values())]
    )
    for name in judged["learned"]["auroc"]:
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
