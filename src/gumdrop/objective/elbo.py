r"""The objective, in nats per datum: negative log likelihood plus KL divergence over the number of data.

.. math:: \mathcal{L} = \frac1B \sum_{b=1}^{B} -\log p(y_b \mid f(x_b)) + \frac{\mathrm{KL}}{N}

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

import numbers
import warnings
import weakref
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.noise import is_traced
from gumdrop.layers import GONE, dropout_blocks, watch_training
from gumdrop.objective.kl import CAPS, Lengthscale, kl_of

__all__ = ["NegativeElbo", "default_lengthscale", "negative_elbo", "warn_if_by_heart"]


LEAST_TO_WARN = 3.0
"""KL in nats a row below which a prior is not called too strong, however little there is to learn."""

BETWEEN_LOOKS = 256
"""Objectives from one look at the values of the loss to the next: each waits for the device."""
BY_HEART = 0.5
"""KL in nats a row from which a network may have determined a weight by each row: at the prior of most evidence, half
a nat is what each of these costs (MacKay 1992)."""
FEW_PASSES = 20
"""Passes over the data after which a network is not yet said to know them by heart; the start costs nats, too."""

_heard: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models whose prior has been looked at."""
_told: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models of whose values something has been said."""


class NegativeElbo(Tensor):
    """The loss, a scalar tensor in nats per datum, that also knows its two parts.

    It goes wherever a loss does: to ``backward``, a ``GradScaler``, or another library's loop. What is computed from
    it, such as ``loss / 4``, is a plain tensor.
    """

    total: Tensor
    """``nll + kl``: the same number as a plain tensor."""
    nll: Tensor
    """Mean negative log likelihood of the batch."""
    kl: Tensor
    """KL divergence over the number of training data."""

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Compute gradients, as `torch.Tensor.backward`."""
        self.total.backward(*args, **kwargs)  # without the detour that operations of a subclass take

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute with the number alone, so that no result carries parts that are not its own."""
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __format__(self, format_spec: str) -> str:
        """Write the number, which a tensor of a class of its own does not do by itself."""
        return format(self.item(), format_spec)


def default_lengthscale(nll: Tensor) -> Lengthscale:
    """Prior that suits a likelihood.

    A density with a noise that is learned has no bound: a network that knows its rows by heart calls them noiseless,
    and gains without end, so that only a strong prior holds it. Classes, yes or no, and counts leave at most the nats
    of a guess to gain, of which a strong prior leaves nothing.

    Args:
        nll: What one of the ``*_nll`` functions returned, as it is: `gaussian_nll` marks its result, and arithmetic
            on it, such as a mean, loses the mark.

    Returns:
        ``"regression"`` for `gaussian_nll`, ``"classification"`` for anything else.
    """
    return "regression" if getattr(nll, "is_density", False) else "classification"


def negative_elbo(
    nll: Tensor, model: nn.Module, *, num_data: int, lengthscale: Lengthscale | None = None
) -> NegativeElbo:
    """Negative evidence lower bound: the training loss, in nats per datum.

    A prior can be so strong that the data are not heard: all weights go to 0, and all rates to 1/2. It is warned of,
    once for each model, where at its first call KL/N is above 3 nats and above the likelihood, of which more cannot
    be gained. Only priors as strong as fan-in do this, so that the capped ones and smaller numbers are not looked at:
    under these, a KL as large goes away with weights that nothing needs.

    Later in a training three more faults are looked for: a density that does not tell that it is one, a network that
    knows its training rows by heart, whose intervals on new rows are too narrow, and batches of other rows that are
    each as large as ``num_data``.

    Args:
        nll: Negative log likelihood of each example of the batch, shape (N,), as the ``*_nll`` functions give
            it; or its mean, a scalar.
        model: The converted model.
        num_data: Number of examples in the whole training set. It weighs the KL: the more data, the less the
            prior counts and the smaller the learned rates.
        lengthscale: Prior, see `kl_divergence`. None takes ``"regression"`` for what `gaussian_nll` returned, as it
            is, and ``"classification"`` for all else; a mean or a weighted sum of Gaussian values wants
            ``"regression"`` said.

    Returns:
        The loss, a scalar tensor, with its parts ``loss.nll`` and ``loss.kl``.

    Raises:
        ValueError: If ``num_data`` is smaller than the batch, or ``nll`` has more than one dimension.
        TypeError: If ``num_data`` is not an integer.

    Example:
        >>> from gumdrop import categorical_nll, learn_dropout
        >>> model = learn_dropout(nn.Linear(3, 2))
        >>> nll = categorical_nll(model(torch.randn(8, 3)), torch.zeros(8, dtype=torch.long))
        >>> loss = negative_elbo(nll, model, num_data=1000)
        >>> loss.backward()
        >>> bool(loss == loss.nll + loss.kl)
        True
    """
    if isinstance(num_data, bool) or not isinstance(num_data, numbers.Integral):
        raise TypeError(f"`num_data` must be an integer, the number of examples in the training set, got {num_data!r}")
    if nll.ndim > 1:
        raise ValueError(f"`nll` must hold one value for each example, shape (N,), got {tuple(nll.shape)}")
    if num_data < max(nll.numel(), 1):
        raise ValueError(
            f"`num_data` must be at least the batch of {nll.numel()}, got {num_data}; it is the size of the whole "
            "training set, as in len(loader.dataset)"
        )
    is_unnamed, lengthscale = lengthscale is None, default_lengthscale(nll) if lengthscale is None else lengthscale
    blocks = list(dropout_blocks(model))
    mean_nll = nll.mean()
    kl = kl_of(model, blocks, num_data=num_data, lengthscale=lengthscale) / num_data
    if nll.requires_grad and not is_traced():
        target = getattr(nll, "target", None)
        watch_training(blocks, batch=nll.numel(), num_data=int(num_data), target=target, stacklevel=2)
        objectives = blocks[0].site.use.objectives
        if objectives % BETWEEN_LOOKS == 0 and model not in _told:
            if is_unnamed and lengthscale == "classification":
                _warn_if_density(mean_nll, model)
            elif getattr(nll, "learns_noise", False):
                passes = objectives * nll.numel() / num_data
                if warn_if_by_heart(kl.item(), max(b.site.p.max().item() for b in blocks), passes, stacklevel=2):
                    _told.add(model)
    if lengthscale not in CAPS and not is_traced() and model not in _heard:
        _warn_if_unheard(mean_nll, kl, model, lengthscale)
    total = mean_nll + kl
    loss = total.as_subclass(NegativeElbo)
    loss.total, loss.nll, loss.kl = total, mean_nll, kl
    return loss


def _warn_if_density(mean_nll: Tensor, model: nn.Module) -> None:
    """Classes and counts have at most a probability of 1, so their negative log likelihood is never below 0."""
    value = mean_nll.item()
    if value < 0:
        _told.add(model)
        warnings.warn(
            f"the mean of `nll` is {value:.3g}, which only a density can be, and a mean or a sum does not tell that it "
            "is one, so that it got the prior for classes, under which long training learns its rows by heart; give "
            'the values of gaussian_nll as they are, or lengthscale="regression"',
            stacklevel=3,
        )


def warn_if_by_heart(kl: float, largest_rate: float, passes: float, *, stacklevel: int) -> bool:
    """Warn if a network whose noise is learned from its training rows seems to know these rows by heart.

    Training rows cannot tell how wide intervals are to be on new ones. But where every row has determined a weight and
    no dropout is left, the residuals are those of a network that has as many weights to spend as there are rows.

    Args:
        kl: KL divergence in nats a row.
        largest_rate: Largest drop probability of the model.
        passes: Passes over the data so far.
        stacklevel: As for `warnings.warn`, from here.

    Returns:
        Whether it did.
    """
    by_heart = kl > BY_HEART and passes > FEW_PASSES and largest_rate < GONE
    if by_heart:
        warnings.warn(
            f"after {passes:.0f} passes over the data the weights cost {kl:.2g} nats a row and no dropout is left: the "
            "network learns its training rows by heart and takes what is left of them for the noise, so that "
            "intervals on new rows are too narrow. Train less, or hold rows out: gumdrop.training.fit(..., "
            "validation=...) keeps the best epoch. See 'Intervals that are too narrow' in docs/method.md",
            stacklevel=stacklevel + 1,
        )
    return by_heart


def _warn_if_unheard(mean_nll: Tensor, kl: Tensor, model: nn.Module, lengthscale: Lengthscale) -> None:
    """Look once at what the prior weighs beside the data, which costs a wait for the device."""
    _heard.add(model)
    weaker = not isinstance(lengthscale, str) and lengthscale**2 < max(each.fan_in for each in dropout_blocks(model))
    if kl.is_meta or weaker:
        return
    prior, data = float(kl.detach()), float(mean_nll.detach())
    if prior > max(data, LEAST_TO_WARN):
        warnings.warn(
            f"the prior `lengthscale={lengthscale!r}` weighs {prior:.3g} nats a row, the likelihood {data:.3g}: it "
            "drowns the data, and the weights will go to 0; leave `lengthscale` out for a prior that fits the size of "
            "the model, or take a smaller number",
            stacklevel=3,
        )
