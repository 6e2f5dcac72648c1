r"""The objective, in nats per datum: negative log likelihood plus KL divergence over the number of data.

.. math:: \mathcal{L} = \frac1B \sum_{b=1}^{B} -\log p(y_b \mid f(x_b)) + \frac{\mathrm{KL}}{N}

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

import math
import numbers
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.bulk import is_traced
from gumdrop.functional import dropout_kl, finite_exp, split_gaussian, widened
from gumdrop.kl import Prior, shared_rate_kl, whole
from gumdrop.layers import Block, ConcreteDropout, HomoscedasticNoise, dropout_blocks, watch_pace, watch_sites

__all__ = [
    "LIKELIHOODS",
    "NegativeElbo",
    "bernoulli_nll",
    "categorical_nll",
    "gaussian_nll",
    "kl_divergence",
    "negative_elbo",
    "poisson_nll",
]

Lengthscale = float | Literal["fan_in", "weak"]

WEAK_PRECISION = 0.1
"""Precision of the ``"weak"`` prior in units of that of ``"fan_in"``; ``benchmarks/prior_strength.py`` compares."""


def _sum_events(nll: Tensor) -> Tensor:
    """Sum over all dimensions but the first, which counts examples."""
    return nll.flatten(1).sum(1) if nll.ndim > 1 else nll


def _check_same_shape(name: str, value: Tensor, target: Tensor) -> None:
    if value.shape != target.shape or value.ndim == 0:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, examples first, got {tuple(value.shape)} and "
            f"{tuple(target.shape)}; (N,) and (N, 1) differ, see Tensor.unsqueeze"
        )


def gaussian_nll(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of a Gaussian, in nats per example.

    .. math:: \tfrac12 \sum_d \left(\log 2\pi + s_d + (y_d - \mu_d)^2 e^{-s_d}\right)

    Args:
        mean: Predicted mean, shape (N, ...).
        log_variance: Log of the noise variance, in squared units of the target: of the shape of ``mean``
            (heteroscedastic), of its event shape ``mean.shape[1:]``, or a scalar (homoscedastic).
        target: Observations, of the shape of ``mean``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> gaussian_nll(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
        tensor([0.9189, 2.9189])
    """
    _check_same_shape("mean", mean, target)
    if log_variance.shape not in (mean.shape, mean.shape[1:], torch.Size([])):
        raise ValueError(
            f"`log_variance` must be a scalar or have the shape of `mean`, {tuple(mean.shape)}, or of one example, "
            f"{tuple(mean.shape[1:])}, got {tuple(log_variance.shape)}"
        )
    log_variance = widened(log_variance)
    # The standardised residual is squared, not the residual, which over- or underflows alone.
    standardised = (widened(target) - widened(mean)) * finite_exp(-0.5 * log_variance)
    return _sum_events(0.5 * (math.log(2 * math.pi) + log_variance + standardised.square()))


_NO_LABEL = torch.iinfo(torch.int64).min  # PyTorch's own default would ignore -100 unasked


def categorical_nll(logits: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Negative log likelihood of classes, in nats per example.

    Args:
        logits: Unnormalised log probabilities, shape (N, C, ...).
        target: Class indices in [0, C), shape (N, ...).
        ignore_index: Label of positions that count nothing, such as void pixels.

    Returns:
        Shape (N,): summed over all positions of an example.

    Raises:
        ValueError: If the shapes disagree.
        TypeError: If ``target`` does not hold integers.
    """
    if logits.ndim < 2 or target.shape != logits.shape[:1] + logits.shape[2:]:
        raise ValueError(
            f"`target` must have the shape of `logits` without its class dimension 1, got logits "
            f"{tuple(logits.shape)} and target {tuple(target.shape)}"
        )
    if target.is_floating_point():
        raise TypeError(f"`target` must hold class indices, got {target.dtype}; convert it with target.long()")
    ignored = _NO_LABEL if ignore_index is None else ignore_index
    return _sum_events(F.cross_entropy(widened(logits), target.long(), reduction="none", ignore_index=ignored))


def bernoulli_nll(logits: Tensor, target: Tensor) -> Tensor:
    """Negative log likelihood of yes/no outcomes, in nats per example.

    Args:
        logits: Logit of the probability of 1, shape (N, ...).
        target: 0 or 1 (or a probability between), of the shape of ``logits``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.
    """
    _check_same_shape("logits", logits, target)
    logits = widened(logits)
    return _sum_events(F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none"))


def poisson_nll(log_rate: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of counts, in nats per example.

    .. math:: \sum_d \left(e^{r_d} - y_d r_d + \log y_d!\right)

    Args:
        log_rate: Log of the expected count ``r``, shape (N, ...).
        target: Counts, of the shape of ``log_rate``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.
    """
    _check_same_shape("log_rate", log_rate, target)
    log_rate = widened(log_rate)
    counts = target.to(log_rate.dtype)
    return _sum_events(torch.exp(log_rate) - counts * log_rate + torch.lgamma(counts + 1))


LIKELIHOODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gaussian": lambda output, target: gaussian_nll(*split_gaussian(output), target),
    "categorical": categorical_nll,
    "bernoulli": bernoulli_nll,
    "poisson": poisson_nll,
}
"""Negative log likelihood of each kind of target, as a function of a network's output and the target."""


def kl_divergence(model: nn.Module, *, lengthscale: Lengthscale = "fan_in") -> Tensor:
    r"""KL divergence of the dropout posterior from the prior, for the whole training set, in nats.

    .. math:: \sum_\text{sites} \frac{l^2}{2} \frac{\lVert W \rVert^2}{1-p} + \frac{l^2}{2} \lVert b \rVert^2 - K H(p)

    A weight that several modules share counts once. Constants are left out, so the value can be negative. It is
    computed from the parameters, whatever was or was not run before.

    Args:
        model: A converted model.
        lengthscale: ``l`` of the prior ``N(0, 1/l^2)`` on each weight, positive; or ``"fan_in"``, which takes
            ``l^2`` as the number of inputs of the layer, so that a unit's input has prior variance of about one; or
            ``"weak"``, a tenth of that, under which a hundred rows can speak and which wants early stopping.

    Returns:
        A scalar tensor with gradient, in float32 or float64.

    Raises:
        ValueError: If the model has no learned dropout, has a site that is attached to no layer, or
            ``lengthscale`` is not positive.

    References:
        Gal, Hron & Kendall 2017 (arXiv:1705.07832), eq. 3.
    """
    if lengthscale not in ("fan_in", "weak") and not (isinstance(lengthscale, (int, float)) and lengthscale > 0):
        raise ValueError(f'`lengthscale` must be a positive number, "fan_in" or "weak", got {lengthscale!r}')
    counted: dict[tuple[int, int, int], Tensor] = {}
    blocks: list[tuple[Block, float]] = []
    biases: list[tuple[Tensor, float]] = []
    attached: set[int] = set()
    for block in dropout_blocks(model):
        attached.add(id(block.site))
        precision = _precision(lengthscale, block.fan_in)
        if _is_new(block.weight, counted):
            blocks.append((block, precision))
        for bias in block.biases:  # not in a comprehension, whose frame torch.compile cannot take by itself
            if _is_new(bias, counted):
                biases.append((bias, precision))
    _check_attached(model, attached)
    terms = _kl_of_blocks(blocks, biases)
    terms += [module.negative_log_prior() for module in model.modules() if isinstance(module, HomoscedasticNoise)]
    total, *others = terms
    for term in others:
        total = total + term.to(total)
    return total


def _kl_of_blocks(blocks: list[tuple[Block, float]], biases: list[tuple[Tensor, float]]) -> list[Tensor]:
    """Give the KL of all sites with one rate and of all biases, in operations over all at once, and of other sites."""
    together = [(block, precision) for block, precision in blocks if block.site.p_logit.ndim == 0]
    priors = [Prior(precision, block.site.num_units) for block, precision in together]
    priors += [Prior(precision) for _, precision in biases]
    tensors = [block.weight for block, _ in together] + [bias for bias, _ in biases]
    terms = [shared_rate_kl([block.site.p_logit for block, _ in together], tensors, priors)] if tensors else []
    for block, precision in blocks:
        site = block.site
        if site.p_logit.ndim:
            square_norm = whole(widened(block.columns(block.weight)).square().sum(0))
            terms.append(dropout_kl(site.p_logit, square_norm, site.num_units, precision=precision))
    return terms


def _precision(lengthscale: Lengthscale, fan_in: int) -> float:
    if lengthscale == "fan_in":
        return float(fan_in)
    return WEAK_PRECISION * fan_in if lengthscale == "weak" else float(lengthscale) ** 2


def _is_new(parameter: Tensor, counted: dict[tuple[int, int, int], Tensor]) -> bool:
    """Remember a parameter, or the part of it that a view looks at."""
    base, start = parameter, 0
    if parameter._base is not None:
        base = parameter._base
        start = int(parameter.storage_offset() - base.storage_offset())
    key = (id(base), start, parameter.numel())
    if key in counted:
        return False
    counted[key] = base  # kept, because the id of a weight that is computed could be given again
    return True


def _check_attached(model: nn.Module, attached: set[int]) -> None:
    loose = [n for n, m in model.named_modules() if isinstance(m, ConcreteDropout) and id(m) not in attached]
    if loose:
        raise ValueError(
            f"site {loose[0]!r} is attached to no layer, so its weights are not known; use "
            "`gumdrop.learn_dropout` to place it"
        )
    if not attached:
        raise ValueError("`model` has no learned dropout; convert it with `gumdrop.learn_dropout(model)`")


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


def _watch(model: nn.Module, batch: int, num_data: int) -> None:
    """Warn of what would be silent in the training of a model."""
    blocks = list(dropout_blocks(model))
    watch_sites(blocks, stacklevel=3)
    if blocks and batch > 1:  # a mean does not tell how many it is of
        watch_pace(blocks[0].site, batch, num_data, stacklevel=3)


def negative_elbo(nll: Tensor, model: nn.Module, *, num_data: int, lengthscale: Lengthscale = "fan_in") -> NegativeElbo:
    """Negative evidence lower bound: the training loss, in nats per datum.

    Args:
        nll: Negative log likelihood of each example of the batch, shape (N,), as the ``*_nll`` functions give
            it; or its mean, a scalar.
        model: The converted model.
        num_data: Number of examples in the whole training set. It weighs the KL: the more data, the less the
            prior counts and the smaller the learned rates.
        lengthscale: Prior, see `kl_divergence`.

    Returns:
        The loss, a scalar tensor, with its parts ``loss.nll`` and ``loss.kl``.

    Raises:
        ValueError: If ``num_data`` is smaller than the batch, or ``nll`` has more than one dimension.
        TypeError: If ``num_data`` is not an integer.

    Example:
        >>> from gumdrop import learn_dropout
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
    if nll.requires_grad and not is_traced():
        _watch(model, nll.numel(), int(num_data))
    mean_nll = nll.mean()
    kl = kl_divergence(model, lengthscale=lengthscale) / num_data
    total = mean_nll + kl
    loss = total.as_subclass(NegativeElbo)
    loss.total, loss.nll, loss.kl = total, mean_nll, kl
    return loss
