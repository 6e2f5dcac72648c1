r"""Sets of classes and alarms with a guarantee, from rows that were held out: split-conformal prediction.

With scores of n held-out rows, and q the :math:`\lceil (n + 1) c \rceil`-th smallest, a new row scores at most q
with a probability of at least c, and at most c + 1/(n + 1) where no two scores are equal. The model may be any, and may
be wrong. What is asked is that held-out and new rows are exchangeable, as rows drawn at random from one table are and
those of next year may not be. The guarantee is for the average over rows, not for each. `conformal_sets` gives for each
row the classes that a new label is among; for numbers see `gumdrop.likelihoods.ConformalLevels`.

`fit_temperature` promises nothing and mends much: one number, learned on held-out rows, by which a network's logits are
divided. For estimators scikit-learn has it: ``CalibratedClassifierCV(FrozenEstimator(model), method="temperature")``.

References:
    Sadinle, Lei & Wasserman 2019, "Least Ambiguous Set-Valued Classifiers with Bounded Error Levels" (JASA 114,
    arXiv:1609.00451).
    Romano, Sesia & Candes 2020, "Classification with Valid and Adaptive Coverage" (NeurIPS, arXiv:2006.02544).
    Guo et al. 2017, "On Calibration of Modern Neural Networks" (arXiv:1706.04599).
    Bates et al. 2023, "Testing for Outliers with Conformal p-values" (Annals of Statistics 51, arXiv:2104.08279).
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from gumdrop.likelihoods import Bernoulli, Categorical, ClassificationPrediction, ConformalLevels
from gumdrop.likelihoods.conformal import rank_of
from gumdrop.machine.optimizers import minimise


def conformal_sets(
    probabilities: ArrayLike,
    held_out: ArrayLike,
    target: ArrayLike,
    *,
    coverage: float = 0.9,
    score: Literal["lac", "aps"] = "lac",
) -> NDArray[np.bool_]:
    r"""Sets of classes that hold the label with at least a given probability, whatever the model.

    Each class of each row has a score :math:`s(x, c)` of how little the model believes in it. A set holds the classes
    whose score is at most q, the :math:`\lceil (n + 1) \text{coverage} \rceil`-th smallest of the scores
    :math:`s(x_i, y_i)` of n held-out rows. The guarantee is for the average over rows that are exchangeable
    with those held out.

    Args:
        probabilities: Of the classes of new rows, shape (N, C), such as `ClassificationPrediction.probabilities` or
            ``predict_proba``.
        held_out: Those of rows that the model was not trained on, shape (n, C).
        target: Observed classes of the held-out rows, as indices in [0, C), shape (n,).
        coverage: Probability, strictly between 0 and 1.
        score: ``"lac"`` takes 1 less the probability of the class, which makes the sets as small as can be on average,
            and empty where no class is likely enough; ``"aps"`` the probability of all classes that are more likely, as
            `ClassificationPrediction.sets` does, which makes large sets where the model is uncertain and none empty.

    Returns:
        Whether each class is in the set of each row, shape (N, C).

    Raises:
        ValueError: If a shape or label is wrong, ``score`` is unknown, or ``coverage`` is out of range or too near to
            1 for the number of held-out rows.

    Example:
        >>> held_out = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]]
        >>> conformal_sets([[0.95, 0.05], [0.5, 0.5]], held_out, [0, 0, 1, 0], coverage=0.6)
        array([[ True, False],
               [False, False]])
    """
    if score not in ("lac", "aps"):
        raise ValueError(f"`score` must be 'lac' or 'aps', got {score!r}")
    new, known, labels = np.asarray(probabilities), np.asarray(held_out), np.asarray(target)
    if new.ndim != 2 or known.ndim != 2 or new.shape[1] != known.shape[1] or labels.shape != known.shape[:1]:
        raise ValueError(
            "`probabilities`, `held_out` and `target` must be of shape (N, C), (n, C) and (n,), got "
            f"{new.shape}, {known.shape} and {labels.shape}"
        )
    if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < known.shape[1])).all():
        raise ValueError(f"`target` must hold indices of the {known.shape[1]} classes, from 0 on, got {labels.dtype}")
    if score == "aps":
        of = ClassificationPrediction.from_log_probabilities
        seen, unseen = (of(torch.from_numpy(each).double().log()) for each in (known, new))
        levels = ConformalLevels.of(seen.conformity(torch.from_numpy(labels)))
        return np.asarray(replace(unseen, levels=(levels,)).sets(coverage))
    reached = np.sort(1 - known[np.arange(len(labels)), labels])[rank_of(len(labels), coverage) - 1]
    return np.asarray(1 - new <= reached)


def fit_temperature(
    logits: Tensor, target: Tensor, *, likelihood: Literal["categorical", "bernoulli"] = "categorical"
) -> float:
    r"""Learn the temperature by which logits are divided, from held-out rows: the one with the best likelihood.

    .. math:: \min_T -\sum_n \log \frac1S \sum_s p_s(y_n), \quad p_s = \text{softmax}(z_s / T)

    Above 1 it takes confidence away. It is learned for the average over draws, which is what predicts, so pass as many
    draws as there will be then.

    Args:
        logits: Of draws, as `gumdrop.sample` gives them, shape (S, N, C, ...), or (S, N, ...) for ``"bernoulli"``; or
            of one network, without the first dimension. Log probabilities are logits, too.
        target: Observed classes, shape (N, ...).
        likelihood: ``"bernoulli"`` for one logit of yes or no.

    Returns:
        The temperature, for ``predict_classification(..., temperature=...)``. It tends to 0 where all held-out rows are
        right, of which there are too few then, and to infinity where the logits know nothing of the classes.

    Raises:
        ValueError: If the shapes disagree, a logit is not finite, or ``likelihood`` is unknown.

    Example:
        >>> fit_temperature(torch.tensor([[3.0, 0.0]]).expand(4, 2), torch.tensor([0, 0, 0, 1])).__round__(3)
        2.731
    """
    likelihoods = {"categorical": Categorical(), "bernoulli": Bernoulli()}
    if likelihood not in likelihoods:
        raise ValueError(f"`likelihood` must be 'categorical' or 'bernoulli', got {likelihood!r}")
    of_one = target.ndim + (likelihood == "categorical")
    draws = logits.detach().unsqueeze(0) if logits.ndim == of_one else logits.detach()
    log_p = likelihoods[likelihood].log_probabilities(draws.double())
    if log_p.shape[1:2] + log_p.shape[3:] != target.shape:
        raise ValueError(
            f"`target` must have the shape of `logits` without draws and classes, got logits {tuple(logits.shape)} and "
            f"target {tuple(target.shape)}"
        )
    if not logits.isfinite().all():
        raise ValueError("`logits` must be finite; for probabilities pass their logs, and of those none of 0")
    observed = target.long().unsqueeze(1).expand(len(log_p), -1, *[-1] * target.ndim).to(log_p.device)
    log_temperature = torch.zeros((), dtype=torch.float64)

    def nll() -> Tensor:
        log_p_of_draws = torch.log_softmax(log_p / log_temperature.exp(), dim=2).gather(2, observed)
        return -torch.logsumexp(log_p_of_draws, dim=0).mean()

    minimise(nll, [log_temperature], max_iter=100, tolerance_change=1e-12)
    return log_temperature.exp().item()


def outlier_p_values(score: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    r"""How likely a score as high is among rows like those held out, from any score of being out of distribution.

    .. math:: p = \frac{1 + \#\{i : r_i \ge s\}}{n + 1}

    For rows like the held-out ones, P(p <= a) is at most a: an alarm at p <= 0.05 is false for 1 row in 20.

    Args:
        score: Scores of new rows, high for out-of-distribution ones, such as `RegressionPrediction.epistemic` or
            `ClassificationPrediction.mutual_information`; shape (N,).
        reference: Scores of held-out rows that are no outliers, shape (n,).

    Returns:
        Shape (N,), in (0, 1].

    Raises:
        ValueError: If there are no held-out rows, or a shape is another one.

    Example:
        >>> outlier_p_values([0.5, 9.0], [0.1, 0.4, 0.6])
        array([0.5 , 0.25])
    """
    scores, known = np.asarray(score, dtype=np.float64), np.sort(np.asarray(reference, dtype=np.float64))
    if scores.ndim != 1 or known.ndim != 1 or not len(known):
        raise ValueError(
            f"`score` and `reference` must be of shape (N,) and (n,), n > 0, got {scores.shape} and {known.shape}"
        )
    return np.asarray((1 + len(known) - np.searchsorted(known, scores, side="left")) / (len(known) + 1))
