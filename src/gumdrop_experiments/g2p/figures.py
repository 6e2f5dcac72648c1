"""Figures and page of `gumdrop reproduce g2p`, from its results alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing

from gumdrop.views import plots
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["doubt", "page", "pooled", "spellers"]

Results = Mapping[str, Any]
PUBLISHED = {"fixed 0.1": "0.82", "broken": "0.96"}


def pooled(results: Results) -> Drawing:
    """The report's two figures: learning curves of all settings, and the learned rates over training."""
    drawing = Drawing(figsize=(10, 3.8), layout="constrained")
    curves, rates = drawing.subplots(1, 2)
    names = list(results["pooled"])
    for name, colour in zip(names, plots.site_colours(len(names)), strict=True):
        values = results["pooled"][name]["history"]["validation_nll"]
        learned = name == "learned"
        curves.plot(
            range(1, len(values) + 1),
            values,
            color=plots.ORANGE if learned else colour,
            linewidth=2.2 if learned else 1.3,
            linestyle="--" if name == "broken" else "-",
            label=name,
        )
    dress(curves, title="held-out loss, nats per word", x="epoch").legend(fontsize=8, frameon=False)
    learned_rates = results["pooled"]["learned"]["rates"]
    plots.rates_over_training(range(1, len(next(iter(learned_rates.values()))) + 1), learned_rates, ax=rates)
    rates.set_title("learned rates of the report's network", fontsize=10, loc="left")
    return drawing


def spellers(results: Results) -> Drawing:
    """Learning curves of the network with attention, and its learned rates."""
    drawing = Drawing(figsize=(10, 3.8), layout="constrained")
    curves, rates = drawing.subplots(1, 2)
    for (arm, each), colour in zip(results["spellers"].items(), (plots.ORANGE, plots.BLUE), strict=True):
        history = each["history"]
        epochs = range(1, len(history["nll"]) + 1)
        curves.plot(epochs, history["validation_nll"], color=colour, label=f"{arm}, held out")
        curves.plot(epochs, history["nll"], color=colour, linestyle=":", label=f"{arm}, in training")
    dress(curves, title="network with attention", x="epoch", y="nats per word").legend(fontsize=8, frameon=False)
    learned = results["spellers"]["learned"]["rates"]
    plots.rates_over_training(range(1, len(next(iter(learned.values()))) + 1), learned, ax=rates)
    rates.set_title("its learned rates", fontsize=10, loc="left")
    return drawing


def doubt(results: Results) -> Drawing:
    """How often words are wrong, by how much drawn functions disagree on their phones."""
    drawing = Drawing(figsize=(10, 3.6), layout="constrained")
    panels = drawing.subplots(1, len(results["spellers"]), sharey=True)
    for ax, (arm, each) in zip(panels, results["spellers"].items(), strict=True):
        doubts = np.asarray(each["judged"]["doubt"])
        wrong = np.asarray(each["judged"]["wrong"], dtype=float)
        groups = np.array_split(np.argsort(doubts, kind="stable"), min(10, len(doubts)))
        heights = [100 * wrong[group].mean() for group in groups]
        colour = plots.ORANGE if arm == "learned" else plots.BLUE
        ax.bar(np.arange(len(groups)) + 0.5, heights, width=0.85, color=colour)
        ax.axhline(100 * wrong.mean(), color=plots.INK, linewidth=1, linestyle=":")
        ax.set_xticks([0, len(groups)], ["least", "most"])
        dress(ax, title=f"{arm}: wrong words by disagreement", x="disagreement of drawn functions")
    panels[0].set_ylabel("words said wrong, %")
    return drawing


def page(results: Results) -> Page:
    """Say what came out.

    Args:
        results: What the run computed.

    Returns:
        The page.
    """
    judged = {arm: each["judged"] for arm, each in results["spellers"].items()}
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
            Figure(
                "g2p-doubt", "Test words in ten groups by disagreement: good are bars that rise. Dotted: all words."
            ),
            Figure("g2p-spellers", "The network with attention: loss and learned rates over training."),
            *(_examples_table(arm, each["examples"]) for arm, each in judged.items()),
        ],
        notes=[
            f"Pronunciations: {results['data']['train']:,} to train with, {results['data']['validation']:,} held out, "
            f"{results['data']['test']:,} of the test part, of which {learned['words']:,} words were tested. A word "
            "goes to its part by its SHA-256, with all its pronunciations. Right is what the dictionary has for it.",
            "Hamming distance: positions that differ from the nearest way of the dictionary, the shorter filled up, "
            "averaged over words. The report does not say how it counts; its figures are .82 (fixed .1) and .96 "
            "(its learned dropout, whose regulariser was never added to the loss).",
            "The ways to say a word come from a beam search without dropout. Drawn functions then say how probable "
            "each is; the disagreement is the mutual information between function and next phone, summed over the most "
            "probable way. The literature has 23 to 25 % of words wrong for LSTM networks, on another split.",
        ],
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _pooled_table(results: Results) -> Table:
    rows = []
    for name, each in results["pooled"].items():
        distance = each["hamming"]
        loss = min(each["history"]["validation_nll"])
        rows.append(
            [name, f"{distance['no_draws']:.3f}", f"{distance['draws']:.3f}", f"{loss:.3f}", PUBLISHED.get(name, "–")]
        )
    columns = ["rates", "Hamming distance, no draws", "10 draws", "held-out loss, nats", "published distance"]
    return Table("The report's network, test words.", columns, rows, ours=[len(rows) - 1])


def _errors_table(judged: Results) -> Table:
    rows = []
    for how, name in (("no_draws", "beam search"), ("draws", "the same ways, ranked by draws")):
        rows.append([f"{name}: words wrong, %", *(f"{100 * each[how]['wer']:.1f}" for each in judged.values())])
        rows.append([f"{name}: phones wrong, %", *(f"{100 * each[how]['per']:.2f}" for each in judged.values())])
    rows.append(
        ["none of the best five right, %", *(f"{100 - 100 * e['any_of_the_best']:.1f}" for e in judged.values())]
    )
    for doubt in judged["learned"]["auroc"]:
        rows.append([f"AUROC of wrong words: {doubt}", *(_number(each["auroc"][doubt]) for each in judged.values())])
    return Table("The network with attention, test words.", ["", *judged], rows)


def _examples_table(arm: str, examples: Sequence[Results]) -> Table:
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
    return Table(f"{arm}: the test words of most and of least doubt.", columns, rows)
