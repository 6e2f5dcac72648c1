"""Predict rows by the functions that are drawn from a model, and the likelihood that it was trained on."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import widened
from gumdrop.likelihoods import Likelihood, likelihood_of
from gumdrop.likelihoods.gaussian import Gaussian, gaussians_of, split_gaussian
from gumdrop.likelihoods.mixture import RegressionPrediction
from gumdrop.likelihoods.prediction import Prediction
from gumdrop.prediction.draws import Output, drawn
from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.twins import DISTANCE, uncompiled

if TYPE_CHECKING:
    from gumdrop.likelihoods import ClassificationPrediction, CountPrediction


class PredictOptions(TypedDict, total=False):
    """What `predict` takes beside a model, its input and a likelihood."""

    num_samples: int
    seed: int | None
    batch_size: int | None
    keep_draws: bool
    shared: Collection[int | str]
    output: Output


def sample(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    shared: Collection[int | str] = (),
    output: Output = None,
) -> Tensor:
    """Evaluate functions drawn from the posterior.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        x: Input with rows in dimension 0. A tuple or mapping of several is passed as arguments. A DataLoader, or
            another iterable of batches, is gone through once, with the same functions in every batch; of a batch that
            is a pair (inputs, targets), as in training, the inputs are taken.
        num_samples: Number of functions, S.
        seed: Same seed, same functions.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`). Leave it None where rows are not apart, as
            the nodes of a graph.
        shared: Places or names of the arguments that have no rows, such as ``["edge_index"]``; each call of the model
            gets them whole, as it gets None, numbers and strings.
        output: Takes the output tensor out of what the model returns.

    Returns:
        Outputs, shape (S, N, ...).

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows or does not have the same number of them
            everywhere, ``shared`` names what is not there, a loader shuffles, or nothing in the model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 3), p=0.2)
        >>> sample(model, torch.randn(5, 8), num_samples=20, seed=0).shape
        torch.Size([20, 5, 3])
    """

    def of_rows(part: Arguments, seed: int | None) -> Tensor:
        return torch.cat(list(drawn(model, part, num_samples, seed, batch_size, output, has_parts=False)))

    return by_batches(of_rows, lambda parts: torch.cat(parts, dim=1), model, x, shared, seed)


def predict(
    model: nn.Module,
    x: Inputs | Batches,
    likelihood: str | Likelihood,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    keep_draws: bool = True,
    shared: Collection[int | str] = (),
    output: Output = None,
) -> Any:
    """Predict each row by a mixture over drawn functions.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, trained on the likelihood.
        x: As for `sample`, like all that is not described here.
        likelihood: ``"gaussian"`` or, with heavy tails, ``"student_t"`` for numbers, ``"categorical"`` for classes,
            ``"bernoulli"`` for yes or no, ``"poisson"`` or ``"negative_binomial"`` for counts, or a
            `gumdrop.likelihoods.Likelihood`.
        num_samples: Number of functions, S.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory.
        keep_draws: Keep what each function says of numbers and counts, for densities and quantiles; memory then grows
            with S.
        shared: Places or names of the arguments that have no rows.
        output: Takes the output tensor out of what the model returns.

    Returns:
        The record of the likelihood, such as a `gumdrop.likelihoods.RegressionPrediction`.

    Raises:
        ValueError: As `sample`; or if the output does not fit the likelihood.
        TypeError: As `sample`.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 2), p=0.2)
        >>> predict(model, torch.randn(5, 8), "gaussian", seed=0).mean.shape
        torch.Size([5, 1])
    """
    of_outputs = likelihood_of(likelihood)

    def of_rows(part: Arguments, seed: int | None) -> Any:
        draws: Iterable[Tensor] = drawn(model, part, num_samples, seed, batch_size, output)
        if of_outputs.takes_logits:
            from gumdrop.prediction.logits import watched  # which numbers do not need

            draws = watched(draws, model, part, output)
        prediction = of_outputs.predict(draws, num_samples, keep_draws=keep_draws)
        return _with_p_values(prediction, model, part, batch_size)

    return by_batches(of_rows, lambda parts: type(parts[0]).joined(parts), model, x, shared, seed)


def _with_p_values(prediction: Any, model: nn.Module, x: Arguments, batch_size: int | None) -> Any:
    """Say how far out rows are, where the model has learned it."""
    distance = vars(uncompiled(model)).get(DISTANCE)
    if distance is None or not isinstance(prediction, Prediction):
        return prediction
    return replace(prediction, outlier_p_value=distance.p_values(model, x, batch_size))


def predict_regression(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    log_variance: Tensor | float | None = None,
    method: Literal["draws", "moments"] = "draws",
    **options: Unpack[PredictOptions],
) -> RegressionPrediction:
    """Predict numbers: `predict` with the likelihood ``"gaussian"``.

    Args:
        model: A model whose output holds means and log variances in the halves of its last dimension.
        x: As for `sample`.
        log_variance: Noise of a model whose output is the mean alone: a number, or shape (D,).
        method: ``"moments"`` computes mean and variances without draws, see `propagate_moments`: for chains of
            layers, in a fraction of the time; then ``num_samples``, ``seed`` and ``keep_draws`` say nothing.
        options: As for `predict`.

    Returns:
        Mean and variances, split into what the model does not know and what is noise.

    Raises:
        ValueError: As `predict`; or if ``method`` is unknown, or the model holds a layer that ``"moments"`` does not
            know.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 2), p=0.2)
        >>> prediction = predict_regression(model, torch.randn(5, 8), seed=0)
        >>> prediction.mean.shape, prediction.epistemic.shape
        (torch.Size([5, 1]), torch.Size([5, 1]))
    """
    if method not in ("draws", "moments"):
        raise ValueError(f"`method` must be 'draws' or 'moments', got {method!r}")
    if method == "draws":
        prediction: RegressionPrediction = predict(model, x, Gaussian(log_variance), **options)
        return prediction
    from gumdrop.prediction.moments.propagation import propagate_moments  # which draws do not need

    batch_size, output = options.get("batch_size"), options.get("output")

    def of_rows(part: Arguments, seed: int | None) -> RegressionPrediction:
        if part.alone is None or output is not None:
            raise ValueError(
                "`method='moments'` needs a model of one input tensor that returns its output, without `output`"
            )
        prediction = _from_moments(*propagate_moments(model, part.alone, batch_size=batch_size), log_variance)
        return _with_p_values(prediction, model, part, batch_size)

    return by_batches(of_rows, RegressionPrediction.joined, model, x, options.get("shared", ()), options.get("seed"))


def _from_moments(mean: Tensor, variance: Tensor, log_variance: Tensor | float | None) -> RegressionPrediction:
    """Predict from the moments of the outputs; the noise variance is that of a log-normal variable."""
    result, epistemic = widened(mean), widened(variance)
    if log_variance is None:
        mean, log_noise = split_gaussian(result)
        epistemic, spread = split_gaussian(epistemic)
        result = torch.cat([mean, log_noise + spread / 2], dim=-1)
    mean, aleatoric = (part.squeeze(0) for part in gaussians_of(result.unsqueeze(0), log_variance))
    return RegressionPrediction(mean, epistemic, aleatoric, None, None)


def predict_classification(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    likelihood: Literal["categorical", "bernoulli"] = "categorical",
    temperature: float = 1.0,
    **options: Unpack[PredictOptions],
) -> "ClassificationPrediction":
    """Predict classes: `predict` with the likelihood ``"categorical"``; memory does not grow with the draws.

    Args:
        model: A model that returns logits of shape (N, C, ...).
        x: As for `sample`.
        likelihood: ``"bernoulli"`` for a model that was trained on `gumdrop.bernoulli_nll`: it returns the logit of
            yes, shape (N, ...), the prediction has two classes, (N, 2, ...), and labels have the shape of the logits.
        temperature: The logits of each draw are divided by it, see `gumdrop.metrics.fit_temperature`.
        options: As for `predict`.

    Returns:
        Probabilities and entropies.

    Raises:
        ValueError: As `predict`; or if ``likelihood`` is neither, or ``temperature`` is not positive.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 3), p=0.2)
        >>> prediction = predict_classification(model, torch.randn(5, 8), seed=0)
        >>> prediction.probabilities.shape, prediction.mutual_information.shape
        (torch.Size([5, 3]), torch.Size([5]))
    """
    if likelihood not in ("categorical", "bernoulli"):
        raise ValueError(f"`likelihood` must be 'categorical' or 'bernoulli', got {likelihood!r}")
    tempered = likelihood_of(likelihood).tempered(temperature)
    prediction: ClassificationPrediction = predict(model, x, tempered, **options)
    return prediction


def predict_counts(model: nn.Module, x: Inputs | Batches, **options: Unpack[PredictOptions]) -> "CountPrediction":
    """Predict counts: `predict` with the likelihood ``"poisson"``.

    Args:
        model: A model that returns the log of the expected count, shape (N, ...).
        x: As for `sample`.
        options: As for `predict`.

    Returns:
        Expected count, its variance, and the draws.

    Raises:
        ValueError: As `predict`.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.2)
        >>> predict_counts(model, torch.randn(5, 8), seed=0).mean.shape
        torch.Size([5, 1])
    """
    prediction: CountPrediction = predict(model, x, "poisson", **options)
    return prediction
