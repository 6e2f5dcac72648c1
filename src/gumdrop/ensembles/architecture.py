"""Which kinds of networks there are for tables.

No network is right for every table. One of smooth units learns smooth functions with the fewest rows; one whose inputs
are cut into bins (`gumdrop.layers.PiecewiseLinear`) sees the fine structure that most tables have; and how strong the
prior should be differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Lengthscale, Likelihood
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.networks.mlp import Activation, mlp
from gumdrop.training import RowSource

HIDDEN = (64, 64)
"""Units: ten networks of this size are better than five of twice the size, and cost less."""
BINS_PER_INPUT, MOST_BINS = 32, 512
"""Bins of an input, and of all together: they bound the first layer, and so the time and memory of wide tables."""
LEAST_BINS = 4
"""Fewer for each input show nothing."""
EDGE_ROWS = 20_000
"""Rows that place the edges of bins."""


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
    pace: float = 1.0
    """What the learning rate of the settings is multiplied by."""
    target_scale: Kind = "identity"
    """What they see of the target: itself, its root or its logarithm, see `gumdrop.likelihoods.TargetScale`."""
    share: float = 1.0
    """Part of the usual epochs that it is trained for, where the settings name none."""

    def network(
        self, num_inputs: int, num_outputs: int, encoding: PiecewiseLinear | None = None, *, homoscedastic_noise: bool
    ) -> nn.Sequential:
        """Build one network of this kind.

        Args:
            num_inputs: Encoded inputs.
            num_outputs: See `gumdrop.networks.mlp`.
            encoding: What stands in front, or None.
            homoscedastic_noise: See `gumdrop.networks.mlp`.

        Returns:
            A network with learned dropout.
        """
        return mlp(
            num_inputs,
            num_outputs,
            hidden=self.hidden,
            homoscedastic_noise=homoscedastic_noise,
            activation=self.activation,
            encoding=encoding,
        )

    def encoding(self, x: Tensor | RowSource) -> PiecewiseLinear | None:
        """Place the edges of bins at quantiles of rows.

        Args:
            x: Inputs, shape (N, F).

        Returns:
            What stands in front of the network; None without bins, or where no input has more than two values.
        """
        if not self.bins_per_input:
            return None
        encoding = PiecewiseLinear.fitted(_spread(x), self.bins_per_input)
        return encoding if encoding.num_bins else None  # inputs of two values are linear as they are

    def settings(self, settings: EnsembleSettings, num_rows: int, likelihood: Likelihood) -> EnsembleSettings:
        """Give settings the learning rate of this kind, and where they name none its prior and its epochs.

        Args:
            settings: The settings.
            num_rows: Rows to train on.
            likelihood: As for `gumdrop.ensembles.fit_ensembles`.

        Returns:
            Those to train with.
        """
        lengthscale = self.lengthscale if settings.lengthscale is None else settings.lengthscale
        epochs = settings.schedule(num_rows, likelihood)[1]
        if settings.epochs is None:
            epochs = max(1, round(self.share * epochs))
        return replace(settings, lr=settings.lr * self.pace, lengthscale=lengthscale, epochs=epochs)


def num_many_valued(x: Tensor | RowSource) -> int:
    """Count the inputs, (N, F), that have more than two values: the others are linear as they are, and need no bins."""
    rows = _spread(x)
    return int(((rows != rows.amin(0)) & (rows != rows.amax(0))).any(0).sum())


def _spread(x: Tensor | RowSource) -> Tensor:
    """Take at most `EDGE_ROWS` evenly spaced rows."""
    rows = torch.linspace(0, len(x) - 1, min(len(x), EDGE_ROWS), dtype=torch.float64).long()
    return x[rows]


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
    bins = min(BINS_PER_INPUT, MOST_BINS // max(1, num_inputs))
    plain = Architecture(HIDDEN, "silu", lengthscale=faint)
    return [plain, replace(plain, bins_per_input=bins, pace=0.5)] if bins >= LEAST_BINS else [plain]
