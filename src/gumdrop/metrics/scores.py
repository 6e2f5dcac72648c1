"""Scores of probabilistic predictions: accuracy, calibration and proper scoring rules.

Every score takes tensors with rows in dimension 0 and gives a scalar tensor unless it says otherwise.

References:
    Gneiting & Raftery 2007, "Strictly Proper Scoring Rules, Prediction, and Estimation" (JASA 102).
    Guo et al. 2017, "On Calibration of Modern Neural Networks" (arXiv:1706.04599).
    Geifman, Uziel & El-Yaniv 2019, "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers"
    (arXiv:1805.08206).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction, NumberPrediction, RegressionPrediction


def check_targets(name: str, value: Tensor, target: Tensor) -> None:
    """Refuse targets that are not of the shape of what is scored."""
    if value.shape != target.shape:
        raise ValueError(f"`target` must have the shape of `{name}`, {tuple(value.shape)}, got {tuple(target.shape)}")


def check_gaussian(prediction: object) -> None:
    """Refuse predictions of Student's t and of counts where a formula is that of Gaussians."""
    if not isinstance(prediction, RegressionPrediction):
        kind = type(prediction).__name__
        raise TypeError(f"`prediction` must be a mixture of Gaussians, got {kind}; every prediction has a `log_prob`")


def rmse(mean: Tensor, target: Tensor) -> Tensor:
    """Root mean squared error, in units of the target.

    Args:
        mean: Predictions.
        target: Observations, of the same shape.

    Returns:
        A scalar.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(1.4142)
    """
    check_targets("mean", mean, target)
    return (mean - target).square().mean().sqrt()


def accuracy(label: Tensor, target: Tensor) -> Tensor:
    """Share of right labels.

    Args:
        label: Predicted classes, of any shape.
        target: Observed classes, of the same shape.

    Returns:
        A scalar in [0, 1].

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> accuracy(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 0]))
        tensor(0.7500)
    """
    check_targets("label", label, target)
    return (label == target).float().mean()


def brier_score(prediction: ClassificationPrediction, target: Tensor) -> Tensor:
    r"""Mean squared distance of the probabilities from what was observed; lower is better.

    .. math:: \frac1N \sum_n \sum_c (p_{nc} - [y_n = c])^2

    This is Brier's own score, in [0, 2]; for two classes it is twice the square of one probability's error.

    Args:
        prediction: Prediction of N rows of C classes.
        target: Observed classes, of the shape of ``prediction.label``.

    Returns:
        A scalar in [0, 2].

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> prediction = ClassificationPrediction.from_log_probabilities(torch.tensor([[0.9, 0.1], [0.6, 0.4]]).log())
        >>> brier_score(prediction, torch.tensor([0, 1]))
        tensor(0.3700)
    """
    check_targets("prediction.label", prediction.label, target)
    probabilities, observed = prediction.probabilities, target.long().unsqueeze(1)
    hits = torch.zeros_like(probabilities).scatter_(1, observed, 1.0)
    return (probabilities - hits).square().sum(1).mean()


def aurc(uncertainty: Tensor, loss: Tensor) -> Tensor:
    r"""Area under the risk-coverage curve: is a model uncertain where it is wrong?

    .. math:: \frac1N \sum_{k=1}^{N} \frac1k \sum_{i=1}^{k} \ell_{(i)}

    where (1), (2), ... are the rows from the most certain to the least certain: the mean loss of the k most certain
    rows, averaged over k. Lower is better; an uncertainty that says nothing gives the mean loss. Rows that are equally
    certain may come in any order, and the score is the mean over these orders.

    Args:
        uncertainty: High where the model is uncertain, such as `RegressionPrediction.variance`,
            `ClassificationPrediction.predictive_entropy` or 1 less the largest probability.
        loss: What an answer costs, of the same shape, such as ``(prediction.label != target).float()`` or a squared
            error.

    Returns:
        A scalar in units of the loss.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> wrong = torch.tensor([0.0, 0.0, 0.0, 1.0])
        >>> aurc(torch.tensor([0.1, 0.2, 0.3, 0.9]), wrong)  # uncertain where it is wrong
        tensor(0.0625)
        >>> aurc(torch.tensor([0.9, 0.3, 0.2, 0.1]), wrong)
        tensor(0.5208)
    """
    if uncertainty.shape != loss.shape:
        raise ValueError(
            f"`loss` must have the shape of `uncertainty`, {tuple(uncertainty.shape)}, got {tuple(loss.shape)}"
        )
    _, group, size = torch.unique(uncertainty.flatten(), return_inverse=True, return_counts=True)
    total = torch.zeros(len(size), dtype=torch.float64, device=loss.device).index_add_(
        0, group, loss.flatten().double()
    )
    from_the_most_certain = (total / size).repeat_interleave(size).cumsum(0)
    coverage = torch.arange(1, len(from_the_most_certain) + 1, device=loss.device)
    return (from_the_most_certain / coverage).mean().to(torch.promote_types(loss.dtype, torch.float32))


def interval_coverage(lower: Tensor, upper: Tensor, target: Tensor) -> Tensor:
    """Share of observations inside their intervals.

    Args:
        lower: Lower ends, of any shape.
        upper: Upper ends, of the same shape.
        target: Observations, of the same shape.

    Returns:
        A scalar in [0, 1].

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> target = torch.arange(4.0)
        >>> interval_coverage(target - 1, target + torch.tensor([1.0, 1.0, 1.0, -0.5]), target)
        tensor(0.7500)
    """
    check_targets("lower", lower, target)
    return ((lower <= target) & (target <= upper)).float().mean()


def central_coverage(prediction: NumberPrediction, target: Tensor, levels: Tensor) -> Tensor:
    """Share of observations inside the central interval of each level: the calibration curve of a regression.

    Args:
        prediction: Prediction of numbers or counts with its draws, N rows of D outputs.
        target: Observations, shape (N, D).
        levels: Probabilities of the intervals, shape (L,).

    Returns:
        Shape (L,); equal to ``levels`` for a calibrated prediction.

    Raises:
        ValueError: If the shapes differ or the draws were not kept.

    Example:
        >>> prediction = RegressionPrediction.gaussian(torch.zeros(1000, 1), torch.ones(1000, 1))
        >>> logistic = torch.linspace(0.0005, 0.9995, 1000).unsqueeze(1).logit() * 3**0.5 / torch.pi  # of variance 1
        >>> central_coverage(prediction, logistic, torch.tensor([0.5, 0.9]))
        tensor([0.5460, 0.9040])
    """
    check_targets("mean", prediction.mean, target)
    # Intervals of atoms, counts and conformal levels are not those of the distribution function.
    if type(prediction) is not RegressionPrediction or prediction.levels:
        held = [interval_coverage(*prediction.interval(level), target) for level in levels.tolist()]
        return torch.stack(held).to(levels)
    distance = (2 * prediction.cdf(target) - 1).abs()
    return (distance.flatten()[:, None] <= levels).float().mean(0)


class Reliability(NamedTuple):
    """Confidence against accuracy in bins of equal width; empty bins are left out."""

    confidence: Tensor
    """Mean probability of the predicted class in each bin."""
    accuracy: Tensor
    """Share of right predictions in each bin."""
    num_rows: Tensor
    """Rows in each bin."""


def reliability(prediction: ClassificationPrediction, target: Tensor, *, num_bins: int = 15) -> Reliability:
    """Compare the probability of the predicted class with how often it is right.

    Args:
        prediction: Prediction of N rows of C classes.
        target: Observed classes, of the shape of ``prediction.label``.
        num_bins: Number of bins over [0, 1].

    Returns:
        Confidence, accuracy and number of rows of each bin that is not empty.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> prediction = ClassificationPrediction.from_log_probabilities(torch.tensor([[0.9, 0.1], [0.6, 0.4]]).log())
        >>> reliability(prediction, torch.tensor([0, 1])).accuracy
        tensor([0., 1.])
    """
    check_targets("prediction.label", prediction.label, target)
    confidence = prediction.probabilities.amax(1).flatten()
    right = (prediction.label == target).float().flatten()
    bins = (confidence * num_bins).long().clamp(max=num_bins - 1)
    count = torch.bincount(bins, minlength=num_bins)
    used = count > 0

    def mean_in_bins(value: Tensor) -> Tensor:  # in float32 a sum of pixels stands still at 2^24
        total = torch.bincount(bins, weights=value.double(), minlength=num_bins)
        return (total[used] / count[used]).to(value.dtype)

    return Reliability(mean_in_bins(confidence), mean_in_bins(right), count[used])


def calibration_error(prediction: ClassificationPrediction, target: Tensor, *, num_bins: int = 15) -> Tensor:
    """Expected calibration error: mean gap between confidence and accuracy over bins.

    Args:
        prediction: Prediction of N rows of C classes.
        target: Observed classes, of the shape of ``prediction.label``.
        num_bins: Number of bins over [0, 1].

    Returns:
        A scalar in [0, 1].

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> prediction = ClassificationPrediction.from_log_probabilities(torch.tensor([[0.9, 0.1], [0.6, 0.4]]).log())
        >>> calibration_error(prediction, torch.tensor([0, 1]))
        tensor(0.3500)
    """
    bins = reliability(prediction, target, num_bins=num_bins)
    return (bins.num_rows * (bins.confidence - bins.accuracy).abs()).sum() / bins.num_rows.sum()
