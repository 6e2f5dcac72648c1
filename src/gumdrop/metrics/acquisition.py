"""Which rows to label next: those from which the model would learn most.

The scores are on the records already: `ClassificationPrediction.mutual_information` (BALD) and
`RegressionPrediction.epistemic`, what more data would remove. Rows that are alike have scores alike, so the highest few
tell the same thing several times. Here are two ways out of that: one needs the score alone, the other the joint draws
of a regression; `choose_classes_jointly` does the same for classes.

References:
    Houlsby et al. 2011, "Bayesian Active Learning for Classification and Preference Learning" (arXiv:1112.5745).
    Kirsch et al. 2023, "Stochastic Batch Acquisition: A Simple Baseline for Deep Active Learning" (arXiv:2106.12059).
"""

import torch
from torch import Tensor

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.likelihoods.scaled_mixture import draw_moments
from gumdrop.metrics.scores import check_gaussian


def choose(score: Tensor, count: int, *, seed: int | None = None) -> Tensor:
    """Choose rows by a score: the highest, or with a seed at random in proportion to it.

    The random choice draws without replacement, by the highest of log score plus Gumbel noise. It costs some of the
    score and spreads the batch, since of many rows alike only some come.

    Args:
        score: At least 0, shape (N,).
        count: How many rows, at most N.
        seed: Seed of the draws; the highest scores if None.

    Returns:
        Indices of rows, shape (count,), the first choice first.

    Raises:
        ValueError: If there are fewer rows than wanted, or a score is negative or not finite.

    Example:
        >>> choose(torch.tensor([0.1, 0.7, 0.4]), 2)
        tensor([1, 2])
    """
    _check_count(count, len(score))
    if score.ndim != 1 or not (score.isfinite() & (score >= 0)).all():
        raise ValueError(f"`score` must hold finite numbers of at least 0, shape (N,), got shape {tuple(score.shape)}")
    if seed is None:
        return score.topk(count).indices
    # `torch.multinomial` runs the same race, but refuses more than 2^24 rows.
    noise = torch.rand(score.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gumbel = -torch.log(-torch.log(noise.clamp(min=1e-300)))
    return (score.cpu().double().clamp(min=1e-300).log() + gumbel).topk(count).indices


def choose_jointly(prediction: RegressionPrediction, count: int) -> Tensor:
    r"""Choose rows that together tell most about the function, one after the other.

    The draws give the covariance of the function between rows. Each choice takes the row of the largest

    .. math:: \tfrac12 \log(1 + v / \sigma^2)

    the information that its label has about the function, with v its epistemic variance given the labels chosen so far,
    as if all were Gaussian: a row like one that was chosen has little left to tell.

    Args:
        prediction: Prediction of N rows of one output, with its draws; they are joint, since a draw is one function.
        count: How many rows, at most N.

    Returns:
        Indices of rows, shape (count,), the first choice first.

    Raises:
        ValueError: If there are fewer rows than wanted, several outputs, or the draws were not kept.
        TypeError: If it is another prediction, such as one of Student's t.

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> draws = torch.tensor([[0.0, 0.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0], [2.0, 2.0, 1.0]]).unsqueeze(2)
        >>> parts = [RegressionPrediction.gaussian(draw, torch.full_like(draw, 0.1)) for draw in draws]
        >>> choose_jointly(RegressionPrediction.mixture(parts), 2)  # rows 0 and 1 are one row
        tensor([0, 2])
    """
    check_gaussian(prediction)
    _check_count(count, len(prediction.mean))
    if prediction.draw_means is None or prediction.mean.shape[1:] != (1,):
        raise ValueError(
            f"`prediction` must be of one output and hold its draws, got shape {tuple(prediction.mean.shape)} "
            f"{'without' if prediction.draw_means is None else 'with'} draws"
        )
    noise = prediction.aleatoric.squeeze(1).double()
    # Rows of `spread` are deviations of draws; their products are covariances between rows.
    means = draw_moments(*prediction.components(), prediction.scale)[0]
    spread = (means - means.mean(0)).squeeze(2).double() / len(means) ** 0.5
    chosen: list[int] = []
    for _ in range(count):
        variance = spread.square().sum(0)
        gain = torch.log1p(variance / noise)
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        # A label of row b takes k k' / (v_b + noise) off the covariance, k being its column: a rank-one step that
        # shrinks the direction of b among the draws.
        column = spread[:, best]
        total = variance[best] + noise[best]
        shrink = (1 - (noise[best] / total).sqrt()) / variance[best].clamp(min=torch.finfo(torch.float64).tiny)
        spread = spread - shrink * torch.outer(column, column @ spread)
    return torch.tensor(chosen)


def _check_count(count: int, num_rows: int) -> None:
    if not 1 <= count <= num_rows:
        raise ValueError(f"`count` must be at least 1 and at most the {num_rows} rows there are, got {count}")
