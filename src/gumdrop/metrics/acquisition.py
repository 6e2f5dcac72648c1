r"""Which rows to label next: those from which the model would learn most.

The scores are on the records already: `ClassificationPrediction.mutual_information` (BALD) and
`RegressionPrediction.epistemic`, what more data would remove. Rows that are alike have scores alike, so the highest few
tell the same thing several times. Here are two ways out of that: one needs the score alone, the other the joint draws
of a regression; `choose_classes_jointly` does the same for classes (BatchBALD): the label of one row tells
:math:`H[y] - E_\omega H[y|\omega]` about the function :math:`\omega`, its mutual information; those of several tell the
same of their joint distribution. Rows that are alike tell it once.

References:
    Houlsby et al. 2011, "Bayesian Active Learning for Classification and Preference Learning" (arXiv:1112.5745).
    Kirsch et al. 2023, "Stochastic Batch Acquisition: A Simple Baseline for Deep Active Learning" (arXiv:2106.12059).
    Kirsch, van Amersfoort & Gal 2019, "BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active
    Learning" (arXiv:1906.08158).
"""

import math

import torch
from torch import Tensor

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.likelihoods.scaled_mixture import draw_moments
from gumdrop.metrics.scores import check_gaussian

MOST_NUMBERS = 2**24
"""Joint probabilities that are held at a time."""
ROWS_AT_ONCE = 64


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


def choose_classes_jointly(logits: Tensor, count: int, *, num_configurations: int = 10_000, seed: int = 0) -> Tensor:
    r"""Choose rows whose labels together tell most about the function, one after the other (BatchBALD).

    Each choice takes the row that adds most to the joint entropy of the labels, less its own ambiguity:

    .. math:: H[y_A, y_n] - H[y_A] - E_\omega H[y_n | \omega]

    The joint entropy is the sum over all configurations of labels of the chosen rows while there are no more than
    ``num_configurations``, and after that an importance-weighted mean over as many that are drawn.

    What a row adds falls with each row that is chosen before it, so its last value bounds the next one, and only rows
    whose bound reaches the best so far are looked at again. Memory does not grow with ``count``.

    Args:
        logits: Of drawn functions, as `gumdrop.sample` gives them: S draws, N rows, C classes, shape (S, N, C).
        count: How many rows, at most N.
        num_configurations: Configurations of labels that are summed over, or drawn, at least S.
        seed: Seed of the draws.

    Returns:
        Indices of rows, shape (count,), the first choice first.

    Raises:
        ValueError: If there are fewer rows than wanted, logits are not finite or of another shape, or there are fewer
            configurations than draws.

    Example:
        >>> sure, torn = torch.tensor([9.0, 0.0]), torch.tensor([0.0, 9.0])
        >>> one = torch.stack([sure, sure, sure, torn])  # a row for each of four drawn functions
        >>> other = torch.stack([torn, sure, torn, sure])
        >>> logits = torch.stack([other, other, one], dim=1)
        >>> choose_classes_jointly(logits, 2)  # rows 0 and 1 are one row
        tensor([0, 2])
    """
    if logits.ndim != 3 or not logits.isfinite().all():
        raise ValueError(f"`logits` must hold finite numbers, shape (S, N, C), got shape {tuple(logits.shape)}")
    num_draws, num_rows, _ = logits.shape
    if not 1 <= count <= num_rows:
        raise ValueError(f"`count` must be at least 1 and at most the {num_rows} rows there are, got {count}")
    if num_configurations < num_draws:
        raise ValueError(f"`num_configurations` must be at least the {num_draws} draws, got {num_configurations}")
    pieces = torch.arange(num_rows, device=logits.device).split(ROWS_AT_ONCE)
    ambiguity = torch.cat([torch.special.entr(_probabilities(logits, rows)).sum(2).mean(0) for rows in pieces])
    # Nothing tells more than the entropy of its label, which the first round looks at.
    gain = torch.full_like(ambiguity, torch.inf)
    generator = torch.Generator(device=logits.device).manual_seed(seed)
    chosen: list[int] = []
    for _ in range(count):
        given, weight = _configurations(logits, chosen, num_configurations, generator)
        known = (weight * torch.special.entr(given.mean(1))).sum()
        best = -math.inf
        open_rows = gain.argsort(descending=True)[: num_rows - len(chosen)]  # the chosen ones stand last
        for rows in open_rows.split(ROWS_AT_ONCE):
            if gain[rows[0]] <= best:
                break
            gain[rows] = _joint_entropy(_probabilities(logits, rows), given, weight) - known - ambiguity[rows]
            best = max(best, float(gain[rows].max()))
        chosen.append(int(gain.argmax()))
        gain[chosen[-1]] = -torch.inf
    return torch.tensor(chosen)


def _probabilities(logits: Tensor, rows: Tensor) -> Tensor:
    """Probabilities of some rows, shape (S, B, C), in double precision, which entropies need."""
    return torch.softmax(logits[:, rows].double(), dim=2)


def _configurations(
    logits: Tensor, chosen: list[int], num_configurations: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The probability of labels that the chosen rows may have under each draw, (M, S), over how often each is drawn."""
    num_draws, _, num_classes = logits.shape
    probabilities = _probabilities(logits, torch.tensor(chosen, dtype=torch.long, device=logits.device))  # (S, k, C)
    if num_classes ** len(chosen) <= num_configurations:
        given = probabilities.new_ones(1, num_draws)
        for p in probabilities.unbind(1):
            given = (given[:, None] * p.T).flatten(0, 1)
        return given, given.new_ones(len(given))
    per_draw = num_configurations // num_draws
    # Each draw says the labels of its configurations; their probability under the mean of all draws is that of drawing.
    given = probabilities.new_ones(num_draws * per_draw, num_draws)
    for p in probabilities.unbind(1):
        labels = torch.multinomial(p, per_draw, replacement=True, generator=generator)  # (S, M / S)
        given *= p.T[labels.flatten()]
    return given, 1 / (len(given) * given.mean(1))


def _joint_entropy(p: Tensor, given: Tensor, weight: Tensor) -> Tensor:
    """Entropy of the labels of the chosen rows and of one more, for each of some rows: (S, B, C) to (B,)."""
    num_draws, num_rows, num_classes = p.shape
    at_once = max(1, MOST_NUMBERS // (num_rows * num_classes))
    total = p.new_zeros(num_rows)
    for part, importance in zip(given.split(at_once), weight.split(at_once), strict=True):
        joint = (part @ p.flatten(1) / num_draws).view(len(part), num_rows, num_classes)
        total += torch.einsum("m,mbc->b", importance, torch.special.entr(joint))
    return total
