r"""Ensembles: a few networks with learned dropout, each watched on rows that it has not seen, mixed into one.

The rows are cut into folds. Each member trains without one fold, and that fold sets its noise (for numbers) or
picks its epoch (for classes), so that every row helps to train most members, and what is said about the noise
comes from rows that the weights have not seen. Members are small and independent, so those of one table, or of
all splits of a table, train as one batched program.

For numbers the noise may then depend on the inputs: the rows outside each member's training give

.. math:: \log \sigma^2_k(x) = s_k + a + w \cdot \phi(x), \qquad \phi(x) = (x, \mu(x), \mu(x)^2)

with the member's own log variance :math:`s_k`, standardised features, and priors :math:`w_j \sim N(0, 1/50)` and
:math:`a \sim N(0, 4)`. The residuals of a member hold its distance from the mean of all members, and the mixture adds
that distance once more; so the noise is reduced by what it holds of it,
:math:`\sigma^2 \leftarrow \sigma^2 - 2 (1 - 1/M) V`, by half at most, with :math:`V` the variance between members.

References:
    Lakshminarayanan et al. 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles"
    (arXiv:1612.01474).
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.objective import Lengthscale
from gumdrop.prediction import (
    ClassificationPrediction,
    RegressionPrediction,
    predict_classification,
    predict_regression,
)
from gumdrop.training import FitResult, fit_stacked
from gumdrop.training.loop import check_data

__all__ = [
    "ClassificationEnsemble",
    "EnsembleFit",
    "NoiseFunction",
    "RegressionEnsemble",
    "fit_classification_ensembles",
    "fit_regression_ensembles",
    "schedule",
]

NUM_FOLDS = 10
ROWS_PER_FOLD = 10
STEPS, PASSES = 2500, 20
MOST_ROWS = 2000
"""Held-out rows of a member, and training rows, that are enough to fit and to correct the noise."""
WEIGHT_PRECISION, OFFSET_PRECISION = 50.0, 0.25
LARGEST_FEATURE = 3.0
DRAWS_OF_NOISE = 50


class NoiseFunction(nn.Module):
    """Factor on the noise variance of a network, log-linear in the inputs and the prediction.

    Args:
        num_inputs: ``F``.
        num_outputs: ``D``.

    Shape:
        Inputs (N, F) and means (N, D). Output (N, D), positive; 1 before it is fitted.
    """

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        shape = (num_outputs, num_inputs + 2)
        self.register_buffer("center", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))
        self.register_buffer("weight", torch.zeros(shape))
        self.register_buffer("offset", torch.zeros(num_outputs))

    center: Tensor
    scale: Tensor
    weight: Tensor
    offset: Tensor

    def forward(self, x: Tensor, mean: Tensor) -> Tensor:
        """Evaluate the factor for rows of inputs and their predicted means."""
        features = ((_noise_features(x, mean) - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        return ((features * self.weight).sum(-1) + self.offset).exp()

    def fit(self, x: Tensor, y: Tensor, prediction: RegressionPrediction) -> None:
        """Fit the factor to rows that the networks have not seen, by penalised maximum likelihood, in place.

        Args:
            x: Inputs, shape (N, F).
            y: Observations, shape (N, D).
            prediction: What was predicted for them, with its draws.
        """
        features = _noise_features(x, prediction.mean)
        self.center, self.scale = features.mean(0), features.std(0, correction=0) + 1e-6
        standard = ((features - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        assert prediction.draw_means is not None
        assert prediction.draw_variances is not None
        square = (y - prediction.draw_means).square()
        log_variance = prediction.draw_variances.log()
        weight = torch.zeros_like(self.weight).requires_grad_()
        offset = torch.zeros_like(self.offset).requires_grad_()
        optimizer = torch.optim.LBFGS([weight, offset], max_iter=60, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            s = log_variance + (standard * weight).sum(-1) + offset
            nll = -torch.logsumexp(-0.5 * (square * torch.exp(-s) + s), dim=0).sum()
            prior = WEIGHT_PRECISION * weight.square().sum() + OFFSET_PRECISION * offset.square().sum()
            total = nll + 0.5 * prior
            total.backward()
            return total

        with torch.enable_grad():
            optimizer.step(loss)
        self.weight, self.offset = weight.detach(), offset.detach()


def _noise_features(x: Tensor, mean: Tensor) -> Tensor:
    """Inputs, mean and its square for each output, shape (N, D, F + 2)."""
    each = mean.unsqueeze(-1)
    return torch.cat([x.unsqueeze(1).expand(-1, mean.shape[1], -1), each, each.square()], dim=-1)


class RegressionEnsemble(nn.Module):
    """Networks with learned dropout whose predictions are mixed, with noise that depends on the inputs.

    Args:
        members: Networks whose output holds means and log variances in halves of its last dimension.
        noise: Factor on their noise variances.
    """

    def __init__(self, members: Sequence[nn.Module], noise: NoiseFunction) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.noise = noise

    @torch.no_grad()
    def predict(
        self,
        x: Tensor,
        *,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int | None = None,
    ) -> RegressionPrediction:
        """Predict a Gaussian mixture for each row.

        Args:
            x: Inputs, shape (N, F).
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same prediction.
            batch_size: Rows that run at once, which bounds memory; all if None.

        Returns:
            Mean and variances, with their draws.

        Raises:
            ValueError: If a number is out of range or ``x`` has no rows.
        """
        options: dict[str, Any] = {"num_samples": _share(num_samples, self.members), "batch_size": batch_size}
        parts = [
            predict_regression(member, x, seed=each, **options)
            for member, each in zip(self.members, _seeds(seed, len(self.members)), strict=True)
        ]
        mixture = RegressionPrediction.mixture(parts)
        return mixture.scale_noise(self.noise(x, mixture.mean))


class ClassificationEnsemble(nn.Module):
    """Networks with learned dropout whose class probabilities are averaged.

    Args:
        members: Networks that return logits.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def predict(
        self,
        x: Tensor,
        *,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int | None = None,
    ) -> ClassificationPrediction:
        """Predict class probabilities.

        Args:
            x: Inputs, shape (N, F).
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same prediction.
            batch_size: Rows that run at once, which bounds memory; all if None.

        Returns:
            Probabilities and entropies.

        Raises:
            ValueError: If a number is out of range or ``x`` has no rows.
        """
        options: dict[str, Any] = {"num_samples": _share(num_samples, self.members), "batch_size": batch_size}
        parts = [
            predict_classification(member, x, seed=each, **options)
            for member, each in zip(self.members, _seeds(seed, len(self.members)), strict=True)
        ]
        return ClassificationPrediction.mixture(parts)


def _share(num_samples: int, members: nn.ModuleList) -> int:
    """Draws of each member."""
    return -(-num_samples // len(members))


def _seeds(seed: int | None, count: int) -> list[int | None]:
    """A seed for each member, so that they do not draw the same masks."""
    if seed is None:
        return [None] * count
    return list(torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed)).tolist())


class EnsembleFit(NamedTuple):
    """An ensemble, and how its members were trained."""

    model: Any
    """A `RegressionEnsemble` or `ClassificationEnsemble`."""
    members: list[FitResult]
    """History of each member."""
    held_out: list[Tensor]
    """Numbers of the rows that each member did not train on and was watched on."""


def fit_regression_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor, Tensor]],
    *,
    num_members: int = 5,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float = 1e-2,
    lengthscale: Lengthscale = "weak",
    input_noise: bool = True,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program: the default for numbers, with nothing to tune.

    Args:
        make: Builds a network that ends in `gumdrop.HomoscedasticNoise`, such as `gumdrop.networks.mlp`; called once
            for each member.
        train: Inputs, shape (N, F), and targets, shape (N, D), of each data set, both standardised.
        num_members: Networks in each ensemble, M.
        epochs: Passes over the rows; None for 2,500 steps, and at least 20 passes.
        batch_size: Rows per step; None for the power of two above N / 64, between 32 and 1,024.
        lr: Largest learning rate; that of the logits is ten times as large.
        lengthscale: Prior, see `gumdrop.kl_divergence`.
        input_noise: Let the noise depend on the inputs and correct it for the spread of the members; one variance
            for each member otherwise.
        seed: Seed of initial weights, folds, shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape, or a setting
            is out of its range.
        CheckpointError: If ``checkpoint`` cannot be continued from.

    Example:
        >>> from functools import partial
        >>> from gumdrop.networks import mlp
        >>> x = torch.linspace(-2, 2, 60).unsqueeze(1)
        >>> make = partial(mlp, 1, 1, hidden=[16], homoscedastic_noise=True)
        >>> (fitted,) = fit_regression_ensembles(make, [(x, x.sin())], num_members=2, epochs=5)
        >>> fitted.model.predict(x, seed=0).mean.shape
        torch.Size([60, 1])
    """
    for x, y in train:
        if x.ndim != 2 or y.ndim != 2:
            raise ValueError(
                f"`train` must hold inputs of shape (N, F) and targets of shape (N, D), got {tuple(x.shape)} and "
                f"{tuple(y.shape)}; see Tensor.unsqueeze"
            )
    members, folds, results = _fit_members(
        make,
        train,
        num_members,
        likelihood="gaussian",
        honest_noise=True,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        lengthscale=lengthscale,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    fits = []
    for (x, y), networks, held_out, histories in zip(train, members, folds, results, strict=True):
        ensemble = RegressionEnsemble(networks, NoiseFunction(x.shape[1], y.shape[1]).to(x.device))
        if input_noise:
            _fit_noise(ensemble, x, y, held_out, seed)
        fits.append(EnsembleFit(ensemble, histories, held_out))
    return fits


def fit_classification_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor, Tensor]],
    *,
    num_members: int = 5,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float = 1e-2,
    lengthscale: Lengthscale = "weak",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program; members keep the epoch that is best on their fold.

    Args:
        make: Builds a network that returns logits; called once for each member.
        train: Inputs, shape (N, F), standardised, and class indices, shape (N,), of each data set.
        num_members: Networks in each ensemble.
        epochs: As for `fit_regression_ensembles`, like all that follow.
        batch_size: Rows per step.
        lr: Largest learning rate.
        lengthscale: Prior.
        seed: Seed of initial weights, folds, shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape, or a setting
            is out of its range.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    members, folds, results = _fit_members(
        make,
        train,
        num_members,
        likelihood="categorical",
        keep_best=True,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        lengthscale=lengthscale,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    return [
        EnsembleFit(ClassificationEnsemble(networks), histories, held_out)
        for networks, histories, held_out in zip(members, results, folds, strict=True)
    ]


def _fit_members(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor, Tensor]],
    num_members: int,
    *,
    likelihood: str,
    epochs: int | None,
    batch_size: int | None,
    seed: int,
    **options: Any,
) -> tuple[list[list[nn.Module]], list[list[Tensor]], list[list[FitResult]]]:
    """Train all members of all ensembles; give networks, held-out rows and histories, grouped by ensemble."""
    smallest = min((check_data(pair, "train", likelihood) for pair in train), default=0)
    if smallest < 4 or num_members < 1:
        raise ValueError(
            f"an ensemble needs at least 4 rows and 1 member, got {smallest} rows and {num_members} members"
        )
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        models = [[make() for _ in range(num_members)] for _ in train]
        orders = [torch.randperm(len(x)) for x, _ in train]
    folds = [_folds(order, num_members) for order in orders]
    most = max(len(order) for order in orders)
    batch_size, epochs = schedule(most, batch_size=batch_size, epochs=epochs)
    results = fit_stacked(
        [model for each in models for model in each],
        [pair for pair in train for _ in range(num_members)],
        rows=[rows for each in folds for rows, _ in each],
        held_out=[held_out for each in folds for _, held_out in each],
        likelihood=likelihood,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        **options,
    )
    grouped = [results[i : i + num_members] for i in range(0, len(results), num_members)]
    return models, [[held_out for _, held_out in each] for each in folds], grouped


def schedule(num_rows: int, *, batch_size: int | None = None, epochs: int | None = None) -> tuple[int, int]:
    """Batch size and number of passes for a data set; what is given is kept.

    Small sets are what these networks are for, and there 2,500 steps are enough, whatever the number of rows; with
    more rows the batches grow, so that they still see each row 20 times.

    Args:
        num_rows: Size of the data set, N.
        batch_size: Rows per step; None for the power of two above N / 64, between 32 and 1,024.
        epochs: Passes over the rows; None for 2,500 steps, and at least 20 passes.

    Returns:
        Batch size and passes.

    Example:
        >>> schedule(455), schedule(7373), schedule(1_000_000)
        ((32, 176), (128, 43), (1024, 20))
    """
    batch_size = batch_size or min(1024, max(32, 2 ** math.ceil(math.log2(num_rows / 64))))
    return batch_size, epochs or max(PASSES, round(STEPS * batch_size / num_rows))


def _folds(order: Tensor, num_members: int) -> list[tuple[Tensor, Tensor]]:
    """Rows to train on and rows that are held out, for each member."""
    count = min(NUM_FOLDS, max(2, len(order) // ROWS_PER_FOLD))
    parts = order.tensor_split(count)
    folds = []
    for member in range(num_members):
        out = member % count
        folds.append((torch.cat([part for i, part in enumerate(parts) if i != out]), parts[out]))
    return folds


@torch.no_grad()
def _fit_noise(ensemble: RegressionEnsemble, x: Tensor, y: Tensor, held_out: list[Tensor], seed: int) -> None:
    """Fit the noise function on the rows outside each member's training, and correct it for the members' spread."""
    rows = [fold[:MOST_ROWS].to(x.device) for fold in held_out]
    seeds = _seeds(seed, len(rows))
    outside = [
        predict_regression(member, x[fold], num_samples=DRAWS_OF_NOISE, seed=each)
        for member, fold, each in zip(ensemble.members, rows, seeds, strict=True)
    ]
    seen = torch.cat(rows)
    prediction = RegressionPrediction.joined(outside)
    ensemble.noise.fit(x[seen], y[seen], prediction)
    if (count := len(rows)) == 1:
        return
    some = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:MOST_ROWS].to(x.device)]
    means = [
        predict_regression(member, some, num_samples=DRAWS_OF_NOISE, seed=each).mean
        for member, each in zip(ensemble.members, seeds, strict=True)
    ]
    spread = torch.stack(means).var(0).mean(0)
    noise = (prediction.aleatoric * ensemble.noise(x[seen], prediction.mean)).mean(0)
    ensemble.noise.offset += (1 - 2 * (1 - 1 / count) * spread / noise).clamp(min=0.5).log()
