"""Which kinds of networks there are for tables.

No network is right for every table. One of smooth units learns smooth functions with the fewest rows; one whose inputs
are cut into bins (`gumdrop.layers.PiecewiseLinear`) sees the fine structure that most tables have; and how strong the
prior should be differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Lengthscale, Likelihood
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.machine.picking import evenly
from gumdrop.networks.perceptron import Activation, mlp
from gumdrop.training import RowSource

PENALTIES = 10.0 ** torch.arange(-5, 4, dtype=torch.float64)
"""What ridge regression chooses from, times the squares of all that it sees over their rows."""


@dataclass(frozen=True)
class Architecture:
    """What is chosen about the networks of a table."""

    hidden: tuple[int, ...]
    """Units of the hidden layers."""
    activation: Activation = "relu"
    """Between the layers."""
    bins_per_input: int = 0
    """Bins that each number is cut into, see `gumdrop.layers.PiecewiseLinear`; 0 for none."""
    lengthscale: Lengthscale | None = None
    """Prior; that of the settings if None."""
    lr_factor: float = 1.0
    """What the learning rate of the settings is multiplied by."""
    target_scale: Kind = "identity"
    """What they see of the target: itself, its root or its logarithm, see `gumdrop.likelihoods.TargetScale`."""
    share: float = 1.0
    """Part of the usual epochs that it is trained for, where the settings name none."""

    def network(
        self, num_inputs: int, num_outputs: int, encoding: PiecewiseLinear | None = None, *, homoscedastic_noise: bool
    ) -> nn.Sequential:
        """Build one network of this kind, see `gumdrop.networks.mlp`."""
        return mlp(
            num_inputs,
            num_outputs,
            hidden=self.hidden,
            homoscedastic_noise=homoscedastic_noise,
            activation=self.activation,
            encoding=encoding,
        )

    def encoding(self, x: Tensor | RowSource) -> PiecewiseLinear | None:
        """Place the edges of bins at quantiles of rows, (N, F); None without bins, or if no input has three values."""
        if not self.bins_per_input:
            return None
        encoding = PiecewiseLinear.fitted(_spread(x), self.bins_per_input)
        return encoding if encoding.num_bins else None  # inputs of two values are linear as they are

    def settings(self, settings: EnsembleSettings, num_rows: int, likelihood: Likelihood) -> EnsembleSettings:
        """Give settings the learning rate of this kind, and where they name none its prior and its epochs."""
        lengthscale = self.lengthscale if settings.lengthscale is None else settings.lengthscale
        epochs = settings.schedule(num_rows, likelihood)[1]
        if settings.epochs is None:
            epochs = max(1, round(self.share * epochs))
        return replace(settings, lr=settings.lr * self.lr_factor, lengthscale=lengthscale, epochs=epochs)


def num_many_valued(x: Tensor | RowSource) -> int:
    """Count the inputs, (N, F), that have more than two values: the others are linear as they are, and need no bins."""
    rows = _spread(x)
    return int(((rows != rows.amin(0)) & (rows != rows.amax(0))).any(0).sum())


def _spread(x: Tensor | RowSource) -> Tensor:
    """Take rows that are enough to place the edges of bins."""
    return x[torch.from_numpy(evenly(len(x), 20_000))]


Build = Callable[[Architecture, PiecewiseLinear | None], nn.Module]
"""Builds one network, with an encoding in front or none."""


def candidates(num_inputs: int, likelihood: Likelihood) -> list[Architecture]:
    """Return the kinds to try on so many inputs: plain, and in bins where there are not too many.

    Those for densities have the faint prior, under which a short trial gets far.

    Example:
        >>> from gumdrop.likelihoods import Gaussian
        >>> [each.bins_per_input for each in candidates(8, Gaussian())]
        [0, 32]
    """
    faint: Lengthscale | None = "faint" if likelihood.is_density else None
    # Ten networks of 64 x 64 are better than five of twice the size, and cost less. 512 bins of all inputs together
    # bound the first layer, and so the time and memory of wide tables; fewer than 4 of an input show nothing.
    plain = Architecture((64, 64), "silu", lengthscale=faint)
    bins = min(32, 512 // max(1, num_inputs))
    return [plain, replace(plain, bins_per_input=bins, lr_factor=0.5)] if bins >= 4 else [plain]


def bins_lose(x: Tensor | RowSource, y: Tensor, encoding: PiecewiseLinear, seed: int) -> bool:
    """Return whether inputs in bins are far behind standardised inputs, (N, F), for numbers, (N, D), and need no trial.

    Ridge regression on random units tells in a blink, since each row can be left out of it in closed form: where it
    gives 1,000 evenly spaced rows .05 nats less on average in bins, and less by more than three standard errors, so do
    networks that are trained, of which those in bins take the longest. Nearer than that, trained networks differ.

    References:
        Rahimi & Recht 2008, "Weighted Sums of Random Kitchen Sinks" (NeurIPS 2008).

    Example:
        >>> x = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
        >>> encoding = PiecewiseLinear.fitted(x, 32)
        >>> bins_lose(x, x[:, :1] * x[:, 1:], encoding, seed=0), bins_lose(x, x.round(), encoding, seed=0)
        (True, False)
    """
    rows = torch.from_numpy(evenly(len(x), 1000))
    inputs, y = x[rows].cpu(), y[rows].cpu().double()
    y = (y - y.mean(0)) / y.std(0).clamp_min(torch.finfo(y.dtype).tiny)
    generator = torch.Generator().manual_seed(seed)
    plain, binned = (_scores(seen, y, generator) for seen in (inputs, encoding.cpu()(inputs) / encoding.scale))
    loss = plain - binned
    return bool(loss.mean() > max(0.05, 3 * loss.std() / len(loss) ** 0.5))


def _scores(x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
    """Return the log likelihood of rows, (N,), with the random units that are best on average, or with none."""
    seen, length = [x], x.square().sum(1).mean().sqrt().clamp_min(torch.finfo(x.dtype).tiny)
    for steepness in (1.0, 3.0):  # for smooth functions, and for those that change quickly
        weight, bias = torch.randn(x.shape[1] + 1, 150, generator=generator).split([x.shape[1], 1])
        seen.append(torch.cat([x, F.silu(2 * (steepness / length * x @ weight + bias))], dim=1))
    return max((_left_out(each, y) for each in seen), key=lambda scores: scores.mean().item())


def _left_out(x: Tensor, y: Tensor) -> Tensor:
    """Return the log likelihood, up to a constant, of each row of centred targets, (N,), by ridge on the others."""
    x = x.double() - x.double().mean(0)
    directions, lengths, _ = torch.linalg.svd(x, full_matrices=False)
    sizes = lengths.square()[:, None]
    penalties = PENALTIES * sizes.sum() / len(x)
    kept = sizes / (sizes + penalties).clamp_min(torch.finfo(x.dtype).tiny)
    leverage = directions.square() @ kept + 1 / len(y)
    predicted = torch.einsum("nk,kp,kd->npd", directions, kept, directions.T @ y)
    squares = ((y[:, None] - predicted) / (1 - leverage).clamp_min(1e-6)[..., None]).square()
    variance = squares.mean(0).clamp_min(1e-12)
    best = variance.log().sum(1).argmin()
    return -0.5 * (variance[best].log() + squares[:, best] / variance[best]).sum(1)
