"""The page of `camvid`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gumdrop_experiments.camvid import BY_CLASS
from gumdrop_experiments.data.camvid import CAMVID_CLASSES
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

Results = Mapping[str, Sequence[Mapping[str, Any]]]

SCORES = {
    "miou": ("mean IoU, %", 100, 1),
    "miou_per_picture": ("mean IoU, a picture", 1, 3),
    "accuracy": ("right pixels, %", 100, 1),
    "nll": ("nats per pixel", 1, 3),
    "ece": ("calibration error, %", 100, 2),
    "overconfidence": ("confidence − accuracy, %", 100, 2),
    "calibration_mse": ("calibration MSE, classes", 1, 5),
}
"""Title, factor and digits of each column."""
MAPS = "Test pictures. Good is uncertainty where the errors are; black in the truth has no class."
RATES = "Learned rates by depth, for each fit, and over the training of the first."
CURVES = "Training loss, and mean IoU after each epoch of the validation pictures and of the crops trained on."
AVERAGES = (
    "The first networks scored as the report does, too: it averages logarithms of probabilities, over all pixels, of "
    "which those without a class are never right."
)
CALIBRATION = "How sure the first network of each kind was of a pixel, and how often right."
NOTES = (
    "All stand at the same places: in front of every convolution but the first. 'None' has rates of 0. Crops are "
    "mirrored at random. Void pixels count nowhere. A mask drops whole channels of a picture.",
    "Published, at 360 x 480 with FC-DenseNet103: 66.9 % mean IoU with fixed .2, 67.2 % learned, 67.4 % with draws "
    "(quoted from memory); a replication report has .401, .414 and .418 by a mean IoU that is formed for each picture "
    "and then averaged, 'a picture' in the table. These are not comparable to smaller pictures.",
)


def page(results: Results) -> Page:
    """Hold learned rates against fixed ones."""
    return Page(
        title="Street scenes (CamVid)",
        lead=_lead(results),
        body=[
            _table(results),
            *[Figure("camvid-maps", MAPS)] * ("learned" in results),
            Figure("camvid-calibration", CALIBRATION),
            Figure("camvid-classes", "The same for each class by itself."),
            _class_calibration(results),
            _averages(results),
            *[Figure("camvid-rates", RATES)] * ("learned" in results),
            _classes(results),
            Figure("camvid-curves", CURVES),
        ],
        notes=NOTES,
    )


def _lead(results: Results) -> str:
    if not {"learned", "fixed 0.2"} <= results.keys():
        return f"Networks with these ways to set the rates: {'; '.join(results)}."
    ours, fixed = (_mean(results, variant, "draws") for variant in ("learned", "fixed 0.2"))
    return (
        f"With draws, learned rates reach a mean IoU of {100 * ours['miou']:.1f} %, fixed 0.2 "
        f"{100 * fixed['miou']:.1f} %; log loss {ours['nll']:.3f} and {fixed['nll']:.3f} nats per pixel, "
        f"calibration error {100 * ours['ece']:.2f} and {100 * fixed['ece']:.2f} %. The epistemic part announces "
        f"wrong pixels with an AUROC of {_auroc(results, 'learned', 'draws', 'mutual_information')}."
    )


def _mean(results: Results, variant: str, how: str) -> dict[str, float]:
    return {name: float(np.mean([run[how][name] for run in results[variant]])) for name in SCORES}


def _auroc(results: Results, variant: str, how: str, uncertainty: str) -> str:
    values = [run[how]["auroc"][uncertainty] for run in results[variant]]
    return "–" if None in values else f"{np.mean(values):.3f}"


def _table(results: Results) -> Table:
    rows = []
    for variant in results:
        for how, words in (("no_draws", "no draws"), ("draws", "draws")):
            if variant == "none" and how == "draws":
                continue
            cells = [f"{variant}, {words}"]
            for score, (_, scale, digits) in SCORES.items():
                mean, error = mean_and_error(scale * run[how][score] for run in results[variant])
                cells.append(f"{mean:.{digits}f}" + f" ({error:.{digits}f})" * (len(results[variant]) > 1))
            cells.append(_auroc(results, variant, how, "mutual_information") if how == "draws" else "–")
            cells.append(_auroc(results, variant, how, "predictive_entropy"))
            rows.append(cells)
    columns = ["dropout", *(title for title, *_ in SCORES.values()), "AUROC of errors, epistemic", "of the total"]
    ours = [i for i, row in enumerate(rows) if row[0].startswith("learned")]
    return Table("Test pictures; means over networks, standard errors in brackets.", columns, rows, ours=ours)


def _class_calibration(results: Results) -> Table:
    rows = []
    for title, (variant, how) in BY_CLASS.items():
        if variant in results:
            values = [[run[how]["class_ece"][c] for run in results[variant]] for c in range(len(CAMVID_CLASSES))]
            rows.append([title, *(f"{100 * np.mean(each):.2f}" for each in values)])
    return Table("Calibration error of each class by itself, %, over all pixels.", ["dropout", *CAMVID_CLASSES], rows)


def _averages(results: Results) -> Table:
    rows = []
    for variant, runs in results.items():
        for how, found in runs[0].get("averages", {}).items():
            for name, scores in found.items():
                errors = (f"{100 * scores[key]:.2f}" for key in ("ece", "overconfidence"))
                rows.append([f"{variant}, {how.replace('_', ' ')}", *name.split(", "), *errors])
    columns = ["dropout", "mean of", "pixels", "calibration error, %", "confidence − accuracy, %"]
    return Table(AVERAGES, columns, rows)


def _classes(results: Results) -> Table:
    rows = []
    for variant, runs in results.items():
        how = "no_draws" if variant == "none" else "draws"
        values = [[run[how]["iou"][c] for run in runs] for c in range(len(CAMVID_CLASSES))]
        rows.append([variant, *("–" if None in each else f"{100 * np.mean(each):.1f}" for each in values)])
    return Table("Intersection over union of each class, %, with draws.", ["dropout", *CAMVID_CLASSES], rows)
