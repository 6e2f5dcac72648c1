"""What draws do to the IoU: by whose statistics maps are normalised, what is averaged, and over how many draws."""

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from gumdrop.prediction import sample
from gumdrop_experiments.camvid.scores import confusion, mean_iou
from gumdrop_experiments.harness import Plain

Pictures = Iterable[tuple[Tensor, Tensor]]
"""Inputs and their true classes, a few at a time."""
FEW = (1, 3)
"""Numbers of draws to score besides all of them."""
BY_PICTURE = "the picture"
"""Name of the network that normalises by the statistics of what it sees, which is one picture at a time."""


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
    model: nn.Module,
    pictures: Pictures,
    *,
    num_classes: int,
    num_samples: int,
    autocast: Callable[[], AbstractContextManager[None]],
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
            counted = confusion(truth, score.argmax(1).cpu(), num_classes)
            counts[key] = counts.get(key, torch.zeros_like(counted)) + counted
    found: Plain = {"draws": numbers, "no draws": mean_iou(counts["no draws", 0])}
    return found | {how: [mean_iou(counts[how, n]) for n in numbers] for how in ("probabilities", "logits")}
