"""The figures of `transformers`."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.variants import START
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.transformers.study import VARIANTS
from gumdrop_experiments.transformers.tasks import SCORES

PLACES = {
    "words": ("word_embeddings",),
    "into attention": ("query", "key", "value", "query_key_value"),
    "out of attention": ("attention.output.dense", "out"),
    "into feed-forward": ("intermediate.dense", "feed_forward.0"),
    "inside feed-forward": ("output.dense", "feed_forward.2"),
    "into the classes": ("pooler.dense", "classifier", "head"),
}
"""Where in a transformer a site stands, by how its name ends."""


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw the learned rates along each network, and the scores of each way to set the rates."""
    yield "transformers-rates", _rates(results)
    yield "transformers-scores", _scores(results)


def _place(name: str) -> str:
    """Say where in a transformer a site stands; the longest ending that fits decides."""
    fits = [(len(end), place) for place, ends in PLACES.items() for end in ends if name.endswith(end)]
    return max(fits)[1]


def _rates(results: Plain) -> Figure:
    """Learned rates of the epoch that is kept, from input to output; colours say where in its layer a site stands."""
    drawing = Figure(figsize=(10.5, 4), layout="constrained")
    colours = dict(zip(PLACES, plots.PALETTE, strict=False))
    panels = drawing.subplots(1, len(results))
    for ax, (task, variants) in zip(panels, results.items(), strict=True):
        names = list(variants["learned"][0]["rates"])
        for i, name in enumerate(names):
            kept = [part["rates"][name][part["best_epoch"] - 1] for part in variants["learned"]]
            ax.plot([i] * len(kept), kept, "o", color=colours[_place(name)], alpha=0.7, markersize=5)
        ax.axhline(START, color=plots.INK, linewidth=1, linestyle=":")
        dress(ax, title=task, x="site, from input to output").set_ylim(0, None)
    panels[0].set_ylabel("drop probability p")
    for place, colour in colours.items():
        panels[0].plot([], [], "o", color=colour, label=place)
    drawing.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8
    )
    return drawing


def _scores(results: Plain) -> Figure:
    """Each score of each way to set the rates."""
    wanted = [(task, score, title) for task, titles in SCORES.items() for score, title in titles.items()]
    drawing = Figure(figsize=(2.5 * len(wanted), 2.8), layout="constrained")
    panels = drawing.subplots(1, len(wanted), sharey=True)
    variants = list(VARIANTS)[::-1]
    for ax, (task, score, title) in zip(panels, wanted, strict=True):
        for i, variant in enumerate(variants):
            mean, error = mean_and_error([part["scores"][score] for part in results[task][variant]])
            ax.errorbar(
                mean, i, xerr=error, fmt="o", color=plots.ORANGE if variant == "learned" else plots.BLUE, capsize=3
            )
        dress(ax, title=f"{task}:\n{title}")
        ax.locator_params(axis="x", nbins=4)
    panels[0].set_yticks(range(len(variants)), variants)
    return drawing
