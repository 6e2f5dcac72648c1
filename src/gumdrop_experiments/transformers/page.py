"""The page of `transformers`."""

import statistics

from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import START, Plain
from gumdrop_experiments.pages import Page, Picture, Table, dress, legend_of, mean_and_error, subplots
from gumdrop_experiments.transformers.study import SCORES, VARIANTS

COMPARED = "Mean and standard error over seeds; test data, with draws unless it says so."
RATES = "Learned rates of the epoch that is kept, a dot for each seed. Dotted: where all began."
NOTES = (
    """All variants have their sites at the same places, under the same prior, with masks that all tokens of a
    sentence share. The fixed dropout of attention probabilities is off: it drops no weight, so no posterior belongs
    to it and its rate cannot be learned by this objective.""",
    """Sums are written by this program ('seventeen plus four is twenty-one.'), different ones to train, to choose
    the epoch and to test.""",
)

PLACES = {
    "words": ("word_embeddings",),
    "into attention": ("query", "key", "value", "query_key_value"),
    "out of attention": ("attention.output.dense", "out"),
    "into feed-forward": ("intermediate.dense", "feed_forward.0"),
    "inside feed-forward": ("output.dense", "feed_forward.2"),
    "into the classes": ("pooler.dense", "classifier", "head"),
}
"""Where in a transformer a site stands, by how its name ends."""


def page(results: Plain) -> Page:
    """Say how good learned rates are, and the best fixed ones."""
    body: list[Picture | Table] = [
        Picture("transformers-scores", COMPARED, _scores(results)),
        *(_table(task, variants) for task, variants in results.items()),
        Picture("transformers-rates", RATES, _rates(results)),
    ]
    return Page("Learned dropout in transformers", _lead(results), body, NOTES)


def _lead(results: Plain) -> str:
    def mean(task: str, variant: str, score: str) -> float:
        return statistics.fmean(part["scores"][score] for part in results[task][variant])

    others = [variant for variant in VARIANTS if variant != "learned"]
    fixed = min(others, key=lambda variant: mean("reviews", variant, "nll"))
    return f"""A small BERT on film reviews: {mean("reviews", "learned", "accuracy"):.1f} % right and
    {mean("reviews", "learned", "nll"):.3f} nats with learned rates; {mean("reviews", fixed, "accuracy"):.1f} % and
    {mean("reviews", fixed, "nll"):.3f} nats with the best fixed setting by test likelihood ({fixed}). A small GPT on
    sums in words: {mean("sums", "learned", "nll"):.4f} nats per character with learned rates,
    {min(mean("sums", variant, "nll") for variant in others):.4f} with the best fixed."""


def _table(task: str, variants: Plain) -> Table:
    rows = []
    for variant, parts in variants.items():
        means = [mean_and_error(part["scores"][score] for part in parts) for score in SCORES[task]]
        rows.append([variant, *(f"{mean:.4g} ({error:.2g})" for mean, error in means)])
    caption = f"{task}: mean and standard error over seeds."
    return Table(caption, ["rates", *SCORES[task].values()], rows, ours=[len(rows) - 1])


def _place(name: str) -> str:
    """Say where in a transformer a site stands; the longest ending that fits decides."""
    fits = [(len(end), place) for place, ends in PLACES.items() for end in ends if name.endswith(end)]
    return max(fits)[1]


def _rates(results: Plain) -> Figure:
    drawing, panels = subplots(1, len(results), size=(10.5, 4))
    colours = dict(zip(PLACES, plots.PALETTE, strict=False))
    for ax, (task, variants) in zip(panels, results.items(), strict=True):
        names = list(variants["learned"][0]["rates"])
        for i, name in enumerate(names):
            kept = [part["rates"][name][part["best_epoch"] - 1] for part in variants["learned"]]
            ax.plot([i] * len(kept), kept, "o", color=colours[_place(name)], alpha=0.7, markersize=5)
        ax.axhline(START, color=plots.INK, linewidth=1, linestyle=":")
        dress(ax, title=task, x="site, from input to output").set_ylim(0, None)
    panels[0].set_ylabel("drop probability p")
    mark = {"marker": "o", "linestyle": "none"}
    legend_of(drawing, {place: {"color": colour, **mark} for place, colour in colours.items()}, 6)
    return drawing


def _scores(results: Plain) -> Figure:
    wanted = [(task, score, title) for task, titles in SCORES.items() for score, title in titles.items()]
    drawing, panels = subplots(1, len(wanted), sharey=True, size=(2.5 * len(wanted), 2.8))
    variants = list(VARIANTS)[::-1]
    for ax, (task, score, title) in zip(panels, wanted, strict=True):
        for i, variant in enumerate(variants):
            mean, error = mean_and_error([part["scores"][score] for part in results[task][variant]])
            colour = plots.ORANGE if variant == "learned" else plots.BLUE
            ax.errorbar(mean, i, xerr=error, fmt="o", color=colour, capsize=3)
        dress(ax, title=f"{task}:\n{title}")
        ax.locator_params(axis="x", nbins=4)
    panels[0].set_yticks(range(len(variants)), variants)
    return drawing
