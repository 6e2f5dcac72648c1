"""The page of `pairs`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.pages import Page, Picture, Table, dress, mean_and_error, subplots
from gumdrop_experiments.pairs.study import OURS

PICTURES = """A digit of each direction, the nearest training image of the other class, and what FIDO finds: the
pixels that decide between the two, and those that the answer rests on where only its own class is asked about, under
a blur."""
CURVES = "Answers that have changed to the other digit, over all directions. Good is a curve that rises early."
NOTES = (
    """The infill is the nearest training image of the other class that the classifier calls by its name, so
    replacing all pixels always changes the answer. 'FIDO, between the two', Captum's methods and the judgement see
    the logits of the two classes alone; 'difference' takes the pixels in which the two pictures differ most.""",
    """Images are test images from number 1000 on that the classifier gets right, the first of each digit. FIDO's
    masks are those of destruction (SDR).""",
)

LARGEST_SHARE = 0.4
"""Where the curves end."""


def needed(results: Plain) -> dict[str, tuple[float, float]]:
    """Mean share of pixels that have to be replaced, with its standard error over all images."""
    parts = list(results["pairs"].values())
    names = parts[0]["needed"]
    return {name: mean_and_error(share for part in parts for share in part["needed"][name]) for name in names}


def page(outcome: WithPictures) -> Page:
    """Say how few pixels decide."""
    results, pictures = outcome
    shares = needed(results)
    best = min((name for name in shares if name != OURS), key=lambda name: shares[name][0])
    directions = results["pairs"]
    rows = []
    for name, (mean, error) in shares.items():
        means = (100 * mean_and_error(part["needed"][name])[0] for part in directions.values())
        rows.append([name, f"{100 * mean:.1f} ({100 * error:.1f})", *(f"{each:.1f}" for each in means)])
    columns = ["method", "all (SE)", *(name.replace("-", " or ") for name in directions)]
    count = sum(part["images"] for part in directions.values())
    return Page(
        "Which part decides between two near digits",
        f"""Replacing {100 * shares[OURS][0]:.1f} % of the pixels changes the answer, chosen by FIDO between the two
        classes; {100 * shares[best][0]:.1f} % by the best other method ({best}).""",
        [
            Picture("pairs", PICTURES, _pictures(pictures)),
            Picture("pairs-curves", CURVES, _curves(results)),
            Table(f"Share of pixels that have to be replaced, %, mean over {count} images.", columns, rows, ours=[0]),
        ],
        NOTES,
    )


def _pictures(shown: Plain) -> Figure:
    rows = list(next(iter(shown.values())))
    size = 1.25 * len(shown) + 1.2, 1.3 * len(rows) + 0.2
    drawing, panels = subplots(len(rows), len(shown), squeeze=False, size=size)
    for column, (name, pictures) in enumerate(shown.items()):
        for row, key in enumerate(rows):
            ax, colours = panels[row, column], plots.RELEVANCE if key.startswith("FIDO") else "Greys"
            ax.imshow(np.asarray(pictures[key]), vmin=0, vmax=1, interpolation="nearest", cmap=colours)
            ax.set(xticks=[], yticks=[])
            if row == 0:
                ax.set_title(name.replace("-", " or "), fontsize=plots.SIZE)
            if column == 0:
                ax.set_ylabel(key.replace(", ", ",\n"), rotation=0, ha="right", va="center", fontsize=plots.SIZE)
    return drawing


def _curves(results: Plain) -> Figure:
    drawing, ax = subplots(size=(6.8, 4.2))
    parts = results["pairs"].values()
    for i, name in enumerate(next(iter(parts))["changed"]):
        curve = np.mean([part["changed"][name] for part in parts], axis=0)
        look: Plain = {"color": plots.PALETTE[i % len(plots.PALETTE)], "linewidth": 2.2 if name == OURS else 1.2}
        ax.plot(results["shares"], curve, "-" if i < len(plots.PALETTE) else ":", label=name, **look)
    dress(ax, x="share of pixels replaced, most relevant first", y="share of answers that changed", legend=8)
    ax.set(xlim=(0, LARGEST_SHARE), ylim=(0, 1.02))
    return drawing
