"""The page of `attribution`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.pages.page import Figure, Page, Table

DIGITS = (
    "Twenty digits; masks with a blurred infill. Dark is relevant; the box holds what the joint mask puts above one "
    "half."
)
CURVES = (
    "Probability of the class while places are put into the infill (insertion) or taken out (deletion), the most "
    "relevant first; mean over digits."
)
PLANTED = "Noise with a square of evidence, and the joint mask under each infill."
PHOTOGRAPHS = (
    "Photographs, to a network that tells crops of these pictures apart: what it knows each one by, which need not be "
    "what a person would name."
)
NOTES = (
    "FIDO learns two masks by gradients through relaxed Bernoulli masks: the smallest sufficient region (SSR) and the "
    "smallest destroying region (SDR); the joint mask is the root of their product. Its settings were chosen on "
    "training images; the digits here are test images from number 1000 on.",
    "The classifier of digits has a test accuracy of {digits:.4f}; the network of the photographs tells crops apart "
    "with {photographs:.3f}.",
    "The plain Gumbel mask has FIDO's objective, optimiser and numbers of steps and masks. At the same temperature it "
    "is the same distribution of masks and the same gradient; what differs there is speed.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Say whether the planted square is found, and how the curves of digits compare."""
    accuracies = {
        "digits": results["classifier"]["test_accuracy"],
        "photographs": results["photographs"]["crop_accuracy"],
    }
    body: list[Figure | Table] = [
        Figure("attribution-digits", DIGITS),
        Figure("attribution-curves", CURVES),
        *(_digit_table(infill, found) for infill, found in results["digits"].items()),
        Figure("attribution-planted", PLANTED),
        _planted_table(results["planted"]),
        Figure("attribution-photographs", PHOTOGRAPHS),
        _speed_table(results["speed"]),
    ]
    return Page("What did it look at", _lead(results), body, [note.format(**accuracies) for note in NOTES])


def _lead(results: Mapping[str, Any]) -> str:
    least = min(regions["joint"]["iou_min"] for regions in results["planted"]["infills"].values())
    sentences = [f"The planted square is found under every infill, with an IoU of at least {least:.2f}."]
    for infill, found in results["digits"].items():
        ours, theirs = (_best(found, ours=own) for own in (True, False))
        sentences.append(
            f"Insertion AUC on digits under {infill}: {ours[1]:.4f} ({ours[0]}) against {theirs[1]:.4f} ({theirs[0]})."
        )
    return " ".join(sentences)


def _best(found: Mapping[str, Any], *, ours: bool) -> tuple[str, float]:
    picked = {name: row["insertion"]["mean"] for name, row in found.items() if name.startswith("FIDO") == ours}
    name = max(picked, key=lambda each: picked[each])
    return name, picked[name]


def _pair(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.4f} ({value['se']:.4f})"


def _digit_table(infill: str, found: Mapping[str, Any]) -> Table:
    rows = [
        [
            name,
            _pair(row["insertion"]),
            _pair(row["deletion"]),
            f"{row['kept_log_odds']['mean']:.2f}",
            f"{row['dropped_log_odds']['mean']:.2f}",
            f"{row['seconds_per_image']:.3f}",
        ]
        for name, row in found.items()
    ]
    means = {key: [row[key]["mean"] for row in found.values()] for key in ("insertion", "deletion", "kept_log_odds")}
    dropped = [row["dropped_log_odds"]["mean"] for row in found.values()]
    best = {
        (int(np.argmax(means["insertion"])), 1),
        (int(np.argmin(means["deletion"])), 2),
        (int(np.argmax(means["kept_log_odds"])), 3),
        (int(np.argmin(dropped)), 4),
    }
    head = ["method", "insertion AUC (SE)", "deletion AUC (SE)", "log-odds, kept", "log-odds, dropped", "s / image"]
    caption = (
        f"Digits, infill and baseline: {infill}. Insertion and kept log-odds: more is better; deletion and dropped "
        "log-odds: less is better. Log-odds are of a sharp region of the most relevant 15 % of the image, kept alone "
        "or taken out. The three masks of a search share its time."
    )
    return Table(caption, head, rows, ours=[i for i, name in enumerate(found) if name.startswith("FIDO")], best=best)


def _planted_table(found: Mapping[str, Any]) -> Table:
    keys = ("iou_min", "iou_mean", "box_iou_mean", "share_outside_mean")
    rows = [
        [f"FIDO joint, {infill.replace('_', ' ')}", *(f"{regions['joint'][key]:.3f}" for key in keys)]
        for infill, regions in found["infills"].items()
    ]
    ours = range(len(rows))
    rows += [[name, *(f"{row[key]:.3f}" for key in keys)] for name, row in found["peers"].items()]
    caption = (
        "Planted square, twenty images: overlap of the relevance above one half with the square, of its box with the "
        "square's, and the share of relevance outside. Captum's attributions are cut at 0 and scaled to a largest "
        "value of 1 in each image."
    )
    return Table(caption, ["method", "least IoU", "mean IoU", "mean box IoU", "share outside"], rows, ours=ours)


def _speed_table(found: Mapping[str, Any]) -> Table:
    keys = ("batch", "alone", "usual", "network_batch", "network_alone")
    rows = [
        [
            name,
            *(f"{1000 * row[key]:.1f}" for key in keys),
            f"{row['times_faster_than_alone']:.1f}",
            f"{row['times_faster_than_usual']:.1f}",
        ]
        for name, row in found["networks"].items()
    ]
    caption = (
        f"Milliseconds for an image at equal steps ({found['iterations']}), masks ({found['num_samples']} of either "
        f"kind) and mask size, {found['images']} digits: all at once, the same code for one image after the other, and "
        "the usual loop (two calls of the model, gumbel_softmax, loss.backward). Beside them the network's own passes "
        "in a batch and one by one, which a search cannot do without. Processor time, median of three rounds."
    )
    times = ["times faster than one by one", "than the usual loop"]
    head = ["network", "batch", "one by one", "usual loop", "network, batch", "network, one by one", *times]
    return Table(caption, head, rows)
