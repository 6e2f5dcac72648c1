"""The page of `lora`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import START, Plain
from gumdrop_experiments.lora.study import SCORES
from gumdrop_experiments.pages import (
    GREY,
    Page,
    Picture,
    Table,
    cell,
    dots,
    dress,
    edges_of,
    legend_of,
    panels_of,
    subplots,
    table_of,
)

ADAPTERS = """Test nats and calibration error of each way to drop, mean and standard error over seeds; lower is
better. Orange: learned. Where a way has rates or priors to choose from, the sentences for development choose, seed
by seed."""
RATES = "Learned rates of what is dropped where a network has dropout, a dot for each seed. Dotted: where all began."
PATHS = """The rate of each path against its depth: of the linear rule that held-out images choose, and learned, by
the ELBO and at the strength that they choose; a line for each seed."""
PATH_SCORES = "Test nats of each way to drop paths, mean and standard error over seeds; lower is better."
NOTES = (
    """No pre-trained weights can be fetched where this ran. The base is a BERT of two layers of 64 that has learned
    the sentiment of phrases of at most five words, and is frozen; LoRA of rank 8 on all its linear layers and a new
    head learn that of sentences. What is said here need not hold for large models.""",
    """MC dropout averages 10 draws at the rates of training. Masks of ranks stand between the two maps of an
    adapter, one for each example: at fixed rates, and at learned ones, as DALorRA (arXiv:2607.02182) learns them,
    without its schedule. The arm 'one half, prior' has the prior of learned rates and a rate of 1/2. Laplace: the
    whole Gauss-Newton matrix of adapters and head, and linearised log-odds; the sentences for development choose the
    precision of its prior, from .001 to 1,000.""",
    """ResNet: eight blocks of two convolutions, 16 and 32 channels. ViT: four layers of 48 units on 16 patches.
    AdamW in one cycle, the best epoch on 297 held-out images, which choose the last rate of the linear rule (.1, .3,
    .5) or the strength of the entropy (1, 30, 300), too.""",
)


def page(results: Plain) -> Page:
    """Say what learned rates gain where a network has dropout."""
    adapters, paths = results["adapters"], results["paths"]
    cells = {head: cell(score, error=True) for score, head in SCORES.items()}
    sentences = {f"{int(n):,} sentences": arms for n, arms in adapters.items()}
    tables = [
        table_of(f"{what}: mean and standard error over seeds.", arms, cells, ours=lambda arm: "learned" in arm)
        for what, arms in (sentences | paths).items()
    ]
    body: list[Picture | Table] = [
        Picture("lora", ADAPTERS, _scores(sentences)),
        *tables[: len(adapters)],
        Picture("lora-rates", RATES, _rates(adapters)),
        Picture("lora-paths", PATHS, _depth(paths)),
        Picture("lora-path-scores", PATH_SCORES, _path_scores(paths)),
        *tables[len(adapters) :],
    ]
    return Page("Rates where a network has dropout", _lead(results), body, NOTES)


def _lead(results: Plain) -> str:
    said = []
    for what, arms in [*results["adapters"].items(), *results["paths"].items()]:
        best = min((arm for arm in arms if "learned" in arm), key=lambda arm: arms[arm]["nll"][0])
        rival = min((arm for arm in arms if "learned" not in arm), key=lambda arm: arms[arm]["nll"][0])
        said.append(f"{what}: {arms[best]['nll'][0]:.3f} ({best}) against {arms[rival]['nll'][0]:.3f} ({rival})")
    return f"Test nats of the best learned and the best other way. {'; '.join(said)}."


def _look(arm: str) -> Plain:
    return {"color": ORANGE if "learned" in arm or "strength" in arm else BLUE}


def _scores(counts: Plain) -> Figure:
    drawing, grid = subplots(len(counts), 2, size=(10.5, 3.2 * len(counts)), squeeze=False)
    for row, (what, arms) in zip(grid, counts.items(), strict=True):
        for ax, score in zip(row, ("nll", "ece"), strict=True):
            pairs = {arm: found[score] for arm, found in arms.items()}
            dots(ax, pairs, edges_of(list(pairs.values()), lower_is_better=True), ".3f", look=_look)
            dress(ax, title=f"{what}: {SCORES[score]}")
        row[1].set_yticklabels([])
    return drawing


def _rates(adapters: Plain) -> Figure:
    drawing, panels = subplots(1, len(adapters), size=(10.5, 5.2), sharey=True)
    for ax, (count, arms) in zip([panels] if len(adapters) == 1 else panels, adapters.items(), strict=True):
        chosen = arms["learned, wherever there is dropout"]["chosen"]
        names = list(chosen[0]["rates"])[::-1]
        for choice in chosen:
            ax.plot([choice["rates"][name] for name in names], range(len(names)), "o", color=ORANGE, alpha=0.6, ms=4)
        ax.axvline(START, color=INK, linewidth=1, linestyle=":")
        dress(ax, title=f"{int(count):,} sentences", x="drop probability p").set_xlim(0, 0.6)
        labels = [name.replace("bert.encoder.layer.", "layer ") for name in names]
        ax.set_yticks(range(len(names)), labels, fontsize=6.5)
    return drawing


PATH_LOOKS: dict[str, Plain] = {
    "linear rule": {"color": GREY},
    "learned, the ELBO": {"color": BLUE},
    "learned, strength chosen": {"color": ORANGE},
}


def _depth(paths: Plain) -> Figure:
    drawing, panels = panels_of(list(paths), 4, panel=(2.9, 2.9), sharey=True)
    for task, ax in panels.items():
        for arm, look in PATH_LOOKS.items():
            for choice in paths[task][arm]["chosen"]:
                ax.plot(range(1, len(choice["rates"]) + 1), choice["rates"], marker="o", ms=3, lw=1, alpha=0.6, **look)
                strength = choice["way"].removeprefix("learned ")
                if choice["way"].startswith("learned") and strength != "1":
                    top = int(np.argmax(choice["rates"]))
                    place, said = (top + 1, choice["rates"][top]), f"strength {strength}"
                    ax.annotate(said, place, (0, 5), textcoords="offset points", ha="center", fontsize=8, **look)
        ax.set_xlabel("path, from the input")
    next(iter(panels.values())).set_ylabel("drop probability p")
    legend_of(drawing, {f"{name}, a line for each seed": look for name, look in PATH_LOOKS.items()}, 3)
    return drawing


def _path_scores(paths: Plain) -> Figure:
    drawing, panels = panels_of(list(paths), 2, panel=(4.2, 2.3), margin=1.0)
    for task, ax in panels.items():
        pairs = {arm: found["nll"] for arm, found in paths[task].items()}
        dots(ax, pairs, edges_of(list(pairs.values()), lower_is_better=True), ".3f", look=_look)
    return drawing
