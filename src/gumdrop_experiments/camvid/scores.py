"""Likelihoods of pixels, scores of segmentation, summed so that memory does not grow, and what draws do to them."""

import copy
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop import sample
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop_experiments.data.camvid import VOID
from gumdrop_experiments.harness import Plain

NUM_BINS = 20
UNCERTAINTY_BINS = 1000
LEAST_UNCERTAINTY = 1e-9
"""In nats; bins of uncertainty are even on a log scale, since low rates make the epistemic part small everywhere."""
UNCERTAINTIES = ("mutual_information", "expected_entropy", "predictive_entropy")
Pictures = Iterable[tuple[Tensor, Tensor]]
"""Inputs, or log probabilities of draws, and their true classes, a few at a time."""
FEW = (1, 3)
"""Numbers of draws to score besides all of them."""
BY_PICTURE = "the picture"
"""Name of the network that normalises by the statistics of what it sees, which is one picture at a time."""


class PixelScores:
    """Sums over pixels, from which all scores come."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.float64)
        self._per_picture: list[float] = []
        self._log_p = 0.0
        # Probability, hits and pixels in each bin: of the predicted class, and of each class by itself.
        self._bins = torch.zeros(3, NUM_BINS, dtype=torch.float64)
        self._class_bins = torch.zeros(num_classes, 3, NUM_BINS, dtype=torch.float64)
        # Right and wrong pixels by uncertainty, up to log C nats.
        self._uncertainties = {name: torch.zeros(2, UNCERTAINTY_BINS, dtype=torch.float64) for name in UNCERTAINTIES}

    def add(self, prediction: ClassificationPrediction, labels: Tensor) -> None:
        """Add pictures: a prediction (N, C, H, W), and true classes (N, H, W), `VOID` where there is none."""
        known = labels != VOID
        target = labels[known].long()
        log_p = prediction.log_probabilities.permute(0, 2, 3, 1)[known]
        self._log_p += log_p.gather(1, target.unsqueeze(1)).sum().item()
        p, label = log_p.exp(), log_p.argmax(1)
        for picture, truth in zip(prediction.label, labels, strict=True):
            counts = confusion(truth, picture, self.num_classes)
            self.confusion += counts
            self._per_picture.append(mean_iou(counts))
        right = label == target
        self._bins += binned(p.amax(1), right)
        for c in range(self.num_classes):
            self._class_bins[c] += binned(p[:, c], target == c)
        span = math.log(math.log(self.num_classes) / LEAST_UNCERTAINTY)
        for name, sums in self._uncertainties.items():
            ratio = getattr(prediction, name)[known].clamp(min=LEAST_UNCERTAINTY) / LEAST_UNCERTAINTY
            bins = (UNCERTAINTY_BINS * ratio.log() / span).long().clamp(max=UNCERTAINTY_BINS - 1)
            for row, chosen in ((0, right), (1, ~right)):
                sums[row] += torch.bincount(bins[chosen], minlength=UNCERTAINTY_BINS).cpu()

    def result(self) -> Plain:
        """Form the scores.

        ``miou`` is of summed intersections over summed unions, ``miou_per_picture`` the report's; ``nll`` in nats per
        pixel, ``overconfidence`` mean confidence minus accuracy, ``calibration_mse`` that of each class by itself,
        weighted by pixels.
        """
        p, is_class, pixels = self._class_bins.unbind(1)
        square = torch.where(pixels > 0, (p - is_class).square() / pixels.clamp(min=1), 0.0)
        return {
            "miou": mean_iou(self.confusion),
            "miou_per_picture": sum(self._per_picture) / len(self._per_picture),
            "iou": [None if math.isnan(value) else value for value in _iou(self.confusion).tolist()],
            "accuracy": (self.confusion.diagonal().sum() / self.confusion.sum()).item(),
            "nll": -self._log_p / self.confusion.sum().item(),
            **calibration(self._bins),
            "calibration_mse": (square.sum() / pixels.sum()).item(),
            "class_ece": ((p - is_class).abs().sum(1) / pixels.sum(1)).tolist(),
            "calibration": _calibration(self._bins),
            "class_calibration": [_calibration(bins) for bins in self._class_bins],
            "auroc": {name: _auroc(*sums) for name, sums in self._uncertainties.items()},
        }


def confusion(truth: Tensor, label: Tensor, num_classes: int) -> Tensor:
    """Count pixels by their true and their predicted class, (C, C); those of `VOID` count nowhere."""
    known = truth != VOID
    pairs = torch.bincount(truth[known].long() * num_classes + label[known], minlength=num_classes**2)
    return pairs.view(num_classes, num_classes).double().cpu()


def mean_iou(counts: Tensor) -> float:
    """Average the intersection over union of all classes that are there or are predicted."""
    return _iou(counts).nanmean().item()


def binned(p: Tensor, hit: Tensor) -> Tensor:
    """Sum probabilities, hits and pixels in each bin of probability: (3, NUM_BINS) on the CPU, of two vectors."""
    bins, weights = (p * NUM_BINS).long().clamp(max=NUM_BINS - 1), (p, hit, torch.ones_like(p))
    return torch.stack([torch.bincount(bins, weights=each.double(), minlength=NUM_BINS) for each in weights]).cpu()


def calibration(bins: Tensor) -> dict[str, float]:
    """Average how far confidence and accuracy of each bin lie apart, and how far the former is above, over pixels."""
    confidence, hits, count = bins
    gaps = {"ece": (confidence - hits).abs(), "overconfidence": confidence - hits}
    return {name: (gap.sum() / count.sum()).item() for name, gap in gaps.items()}


def _calibration(bins: Tensor) -> Plain:
    """Mean probability and share of hits in each bin, None in empty ones, and its pixels."""
    *totals, pixels = bins.tolist()
    means = [[t / n if n else None for t, n in zip(total, pixels, strict=True)] for total in totals]
    return {"p": means[0], "right": means[1], "pixels": pixels}


def _iou(counts: Tensor) -> Tensor:
    """Intersection over union of each class; NaN where it neither is nor is predicted."""
    hit = counts.diagonal()
    return hit / (counts.sum(0) + counts.sum(1) - hit)


def _auroc(right: Tensor, wrong: Tensor) -> float | None:
    """Chance that a wrong pixel has more uncertainty than a right one, from counts by uncertainty; ties count half."""
    if not (right.sum() and wrong.sum()):
        return None
    below = right.cumsum(0) - right
    return ((wrong * (below + right / 2)).sum() / (right.sum() * wrong.sum())).item()


def calibration_by_averages(pictures: Pictures) -> Plain:
    """Score drawn functions by the mean of their probabilities and, as the report does, of their logarithms.

    The exponential of a mean logarithm is at most the mean probability: the classes then add up to less than 1. Of all
    pixels, those without a class are never right. Pictures are log probabilities of draws, (S, N, C, H, W), with the
    true classes, (N, H, W).
    """
    bins: dict[str, Tensor] = {}
    for log_p, labels in pictures:
        probabilities = torch.logsumexp(log_p, dim=0) - math.log(len(log_p))
        for average, mean in (("probabilities", probabilities), ("logarithms", log_p.mean(0))):
            p, label = mean.exp().max(1)
            for pixels, chosen in (("of a class", labels != VOID), ("all", torch.ones_like(labels, dtype=torch.bool))):
                sums = binned(p[chosen], (label == labels)[chosen])
                name = f"{average}, {pixels}"
                bins[name] = bins.get(name, torch.zeros_like(sums)) + sums
    return {name: calibration(each) for name, each in bins.items()}


def pixel_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log likelihood of pictures: the sum over pixels that have a class, in nats, shape (N,)."""
    return F.cross_entropy(logits, labels.long(), ignore_index=VOID, reduction="none").flatten(1).sum(1)


def noisy_log_probabilities(output: Tensor, noise: Tensor) -> Tensor:
    """Log of the class probabilities, averaged over Gaussian noise on the logits (Kendall & Gal 2017, eq. 12).

    The output holds logits and the log variances of their noise, (N, 2 C, H, W); the noise (D, ...) broadcasts to D
    times the logits.
    """
    logits, log_variance = output.chunk(2, dim=1)
    drawn = logits + noise * torch.exp(0.5 * log_variance)
    return torch.logsumexp(torch.log_softmax(drawn, dim=2), dim=0) - math.log(len(drawn))


def normalised_by(model: nn.Module, crops: Iterable[Tensor]) -> dict[str, nn.Module]:
    """Networks with the statistics of training under masks, of the same crops without masks, and of each picture."""
    without_masks, by_picture = copy.deepcopy(model), copy.deepcopy(model)
    for norm in _norms(by_picture):
        norm.running_mean = norm.running_var = None
    for norm in _norms(without_masks):
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        for x in crops:
            without_masks(x)
    return {"masked training": model, "training without masks": without_masks.eval(), BY_PICTURE: by_picture}


def _norms(model: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]


def miou_by_draws(
    model: nn.Module, pictures: Pictures, *, num_samples: int, autocast: Callable[[], AbstractContextManager[None]]
) -> Plain:
    """Mean IoU without draws, and for numbers of draws with the mean of their probabilities and of their logits."""
    counts: dict[tuple[str, int], Tensor] = {}
    numbers = [*(n for n in FEW if n < num_samples), num_samples]
    for x, truth in pictures:
        with torch.no_grad(), autocast():
            plain = model(x).float()
            drawn = torch.stack([each.float() for each in sample(model, x, num_samples=num_samples, seed=0)])
        scores = {("no draws", 0): plain}
        scores |= {("probabilities", n): drawn[:n].softmax(2).mean(0) for n in numbers}
        scores |= {("logits", n): drawn[:n].mean(0) for n in numbers}
        for key, score in scores.items():
            counted = confusion(truth, score.argmax(1).cpu(), score.shape[1])
            counts[key] = counts.get(key, torch.zeros_like(counted)) + counted
    result: Plain = {"draws": numbers, "no draws": mean_iou(counts["no draws", 0])}
    return result | {how: [mean_iou(counts[how, n]) for n in numbers] for how in ("probabilities", "logits")}
