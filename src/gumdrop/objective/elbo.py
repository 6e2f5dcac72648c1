r"""The objective, in nats per datum: negative log likelihood plus KL divergence over the number of data.

.. math:: \mathcal{L} = \frac1B \sum_{b=1}^{B} -\log p(y_b \mid f(x_b)) + \frac{\mathrm{KL}}{N}

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

import numbers
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.noise import is_traced
from gumdrop.layers import dropout_blocks
from gumdrop.layers.attach import check_rates
from gumdrop.layers.watch import watch_training
from gumdrop.likelihoods import Lengthscale, Likelihood
from gumdrop.objective.kl import kl_of, prior_of, warn_if_drowned


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


def negative_elbo(
    nll: Tensor,
    model: nn.Module,
    *,
    num_data: int,
    likelihood: str | Likelihood | None = None,
    lengthscale: Lengthscale | None = None,
) -> NegativeElbo:
    """Negative evidence lower bound: the training loss, in nats per datum.

    What makes it silently wrong is warned of, once for each model: sites that do not act, rates that the optimiser does
    not know, a ``num_data`` that is the size of a batch, and at the first call a prior of your own so strong that the
    data are not heard, under which all weights go to 0 and all rates to 1/2.

    Args:
        nll: Negative log likelihood of each example of the batch, shape (N,), as the ``*_nll`` functions give
            it; or its mean, a scalar.
        model: The converted model.
        num_data: Number of examples in the whole training set. It weighs the KL: the more data, the less the
            prior counts and the smaller the learned rates.
        likelihood: What ``nll`` is of, one of `gumdrop.likelihoods.LIKELIHOODS` such as ``"gaussian"`` or
            ``"categorical"``: it has the prior that suits it.
        lengthscale: Prior, see `kl_divergence`, in the place of that of the likelihood: ``"regression"`` suits
            densities whose noise is learned, ``"classification"`` all else.

    Returns:
        The loss, a scalar tensor, with its parts ``loss.nll`` and ``loss.kl``.

    Raises:
        ValueError: If neither ``likelihood`` nor ``lengthscale`` is given, ``num_data`` is smaller than the batch,
            ``nll`` has more than one dimension, or a rate is no number, as of memory that was never initialised.
        TypeError: If ``num_data`` is not an integer.

    Example:
        >>> import torch
        >>> from gumdrop import categorical_nll, learn_dropout
        >>> model = learn_dropout(nn.Linear(3, 2))
        >>> nll = categorical_nll(model(torch.randn(8, 3)), torch.zeros(8, dtype=torch.long))
        >>> loss = negative_elbo(nll, model, num_data=1000, likelihood="categorical")
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
    lengthscale = prior_of(likelihood, lengthscale)
    blocks = list(dropout_blocks(model))
    mean_nll = nll.mean()
    kl = kl_of(model, blocks, num_data=num_data, lengthscale=lengthscale) / num_data
    if nll.requires_grad and not is_traced():
        is_first = watch_training(blocks, model, nll=nll, num_data=int(num_data))
        if is_first:
            check_rates((block.site for block in blocks), model)
            warn_if_drowned(blocks, lengthscale, kl, mean_nll)
    total = mean_nll + kl
    loss = total.as_subclass(NegativeElbo)
    loss.total, loss.nll, loss.kl = total, mean_nll, kl
    return loss
