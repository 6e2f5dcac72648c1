r"""Rows to label next, together, where labels are classes: BatchBALD.

The label of one row tells :math:`H[y] - E_\omega H[y|\omega]` about the function :math:`\omega`, its mutual
information; those of several tell the same of their joint distribution. Rows that are alike tell it once.

References:
    Kirsch, van Amersfoort & Gal 2019, "BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active
    Learning" (arXiv:1906.08158).
"""

import math

import torch
from torch import Tensor

MOST_NUMBERS = 2**24
"""Joint probabilities that are held at a time."""
ROWS_AT_ONCE = 64


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
    each = _probabilities(logits, torch.tensor(chosen, dtype=torch.long, device=logits.device))  # (S, k, C)
    if num_classes ** len(chosen) <= num_configurations:
        given = each.new_ones(1, num_draws)
        for p in each.unbind(1):
            given = (given[:, None] * p.T).flatten(0, 1)
        return given, given.new_ones(len(given))
    per_draw = num_configurations // num_draws
    # Each draw says the labels of its configurations; their probability under the mean of all draws is that of drawing.
    given = each.new_ones(num_draws * per_draw, num_draws)
    for p in each.unbind(1):
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
