"""The page of `pairs`."""

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.pairs.study import OURS

PICTURES = (
    "A digit of each direction, the nearest training image of the other class, and what FIDO finds: the pixels that "
    "decide between the two, and those that the answer rests on where only its own class is asked about, under a blur."
)
CURVES = "Answers that have changed to the other digit, over all directions. Good is a curve that rises early."
NOTES = (
    "The infill is the nearest training image of the other class that the classifier calls by its name, so replacing "
    "all pixels always changes the answer. 'FIDO, between the two', Captum's methods and the judgement see the logits "
    "of the two classes alone; 'difference' takes the pixels in which the two pictures differ most.",
    "Images are test images from number 1000 on that the classifier gets right, the first of each digit. FIDO's masks "
    "are those of destruction (SDR).",
)


def needed(results: Plain) -> dict[str, tuple[float, float]]:
    """Mean share of pixels that have to be replaced, with its standard error over all images."""
    parts = list(results["pairs"].values())
    return {
        name: mean_and_error([share for part in parts for share in part["needed"][name]]) for name in parts[0]["needed"]
    }


def page(results: Plain) -> Page:
    """Say how few pixels decide."""
    shares = needed(results)
    best = min((name for name in shares if name != OURS), key=lambda name: shares[name][0])
    directions = results["pairs"]
    rows = [
        [
            name,
            f"{100 * shares[name][0]:.1f} ({100 * shares[name][1]:.1f})",
            *(f"{100 * mean_and_error(part['needed'][name])[0]:.1f}" for part in directions.values()),
        ]
        for name in shares
    ]
    columns = ["method", "all (SE)", *(name.replace("-", " or ") for name in directions)]
    count = sum(part["images"] for part in directions.values())
    return Page(
        "Which part decides between two near digits",
        f"Replacing {100 * shares[OURS][0]:.1f} % of the pixels changes the answer, chosen by FIDO between the two "
        f"classes; {100 * shares[best][0]:.1f} % by the best other method ({best}).",
        [
            Figure("pairs", PICTURES),
            Figure("pairs-curves", CURVES),
            Table(f"Share of pixels that have to be replaced, %, mean over {count} images.", columns, rows, ours=[0]),
        ],
        NOTES,
    )
