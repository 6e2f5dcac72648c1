"""The KL divergence of a converted model from its prior, and how strong this prior is."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.floats import widened
from gumdrop.functional.kl import dropout_kl, total_kl, whole
from gumdrop.functional.noise import is_traced
from gumdrop.layers import Block, ConcreteDropout, dropout_blocks
from gumdrop.layers.attach import check_rates, named_parts
from gumdrop.layers.block import p_logits
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.watch import have_moved, watch_training
from gumdrop.likelihoods import Lengthscale, Likelihood, likelihood_of
from gumdrop.machine.notes import warn

CAPS = {"classification": 0.05, "regression": 8.0}
"""Nats a row that weights of the fan-in prior's own size cost at most; ``benchmarks/default_prior.py`` compares."""

LEAST_TO_WARN = 3.0
"""KL in nats a row below which a prior is not called too strong, however little there is to learn."""
WEAK_PRECISION = 0.1
"""Precision of the ``"weak"`` prior in units of that of ``"fan_in"``; ``benchmarks/prior_strength.py`` compares."""
OF_FAN_IN = {"weak": WEAK_PRECISION, "faint": 0.01}
"""Precision of the priors for ensembles in units of that of ``"fan_in"``."""


def kl_divergence(
    model: nn.Module,
    *,
    num_data: int | Tensor | None = None,
    likelihood: str | Likelihood | None = None,
    lengthscale: Lengthscale | None = None,
) -> Tensor:
    r"""KL divergence of the dropout posterior from the prior, for the whole training set, in nats.

    .. math:: \sum_\text{sites} \frac{l^2}{2} \frac{\lVert W \rVert^2}{1-p} + \frac{l^2}{2} \lVert b \rVert^2
              - s K H(p)

    A weight that several modules share counts once. Constants are left out, so the value can be negative. It is
    computed from the parameters, whatever was or was not run before; only a site in the place of a network's own
    dropout, behind which no weight is known, adds the entropy alone, with the most units K that its inputs have had.
    With a ``strength`` s of its site other than 1, see `gumdrop.networks.set_strength`, the entropy is tempered and
    the sum is no KL divergence any more.

    A loss of your own adds it, over the number of data, to a negative log likelihood. Its gradient brings the warnings
    of `negative_elbo` of sites that do not act and rates that the optimiser does not know.

    Args:
        model: A converted model.
        num_data: Number of examples in the training set, an integer or a scalar tensor; the priors that depend on it
            need it, among them those of all likelihoods.
        likelihood: What the data term of the loss is of, such as ``"gaussian"`` or ``"categorical"``: it has the prior
            that suits it, see `negative_elbo`.
        lengthscale: The prior, in the place of that of the likelihood: ``l`` of ``N(0, 1/l^2)`` on each weight,
            positive; or a name:

            - ``"fan_in"`` takes ``l^2`` as the number of inputs of the layer, so that a unit's input has prior
              variance of about one. It weighs more the larger the network, and drowns the data of a large one.
            - ``"classification"`` and ``"regression"`` are the same, but never stronger than such that weights of
              just that variance cost .05 or 8 nats a row: all ``l^2`` are multiplied by ``min(1, 2 c N / n)`` with
              ``n`` weights and biases in all. What `negative_elbo` takes by default.
            - ``"weak"`` is a tenth of ``"fan_in"`` and ``"faint"`` a hundredth, for ensembles that are watched on
              held-out rows.

    Returns:
        A scalar tensor with gradient, in float32 or float64.

    Raises:
        ValueError: If neither ``likelihood`` nor ``lengthscale`` is given; the model has no learned dropout, has a
            site that is attached to no layer, or two sites of one weight; or ``lengthscale`` is neither positive nor a
            name, or its prior needs ``num_data``.

    References:
        Gal, Hron & Kendall 2017 (arXiv:1705.07832), eq. 3.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 2), p=0.5)
        >>> _ = [nn.init.zeros_(weight) for weight in (model.weight, model.bias)]
        >>> kl_divergence(model, num_data=1000, likelihood="categorical").detach()  # 8 units of ln 2 nats each
        tensor(-5.5452)
    """
    blocks, prior = list(dropout_blocks(model)), prior_of(likelihood, lengthscale)
    kl = kl_of(model, blocks, num_data=num_data, lengthscale=prior)
    if kl.requires_grad and not is_traced():
        # A KL without a gradient, as in a log, is no objective. What it is multiplied by in the loss is its gradient.
        kl.register_hook(partial(_watch, blocks, model, prior, kl.detach(), num_data=num_data))
    return kl


def prior_of(likelihood: str | Likelihood | None, lengthscale: Lengthscale | None) -> Lengthscale:
    """Find the prior that is asked for, of which there is no default: it depends on what the data are."""
    if likelihood is not None:
        return likelihood_of(likelihood).prior(lengthscale)
    if lengthscale is None:
        raise ValueError(
            '`likelihood` must say what `nll` is of, since its prior depends on it: "gaussian", "categorical", '
            '"bernoulli" or "poisson"; of another density give lengthscale="regression", of all else '
            'lengthscale="classification"'
        )
    return lengthscale


def _watch(
    blocks: Sequence[Block], model: nn.Module, prior: Lengthscale, kl: Tensor, weight: Tensor, num_data: Any
) -> None:
    """Look as an objective does that knows no likelihood; gradients between which nothing moves are one.

    A loss whose KL has a weight of 1 is that of all rows, and says nothing of a row.
    """
    if not have_moved(blocks):
        return
    if watch_training(blocks, model, nll=kl, num_data=num_data if isinstance(num_data, int) else 0):
        check_rates((block.site for block in blocks), model)
        warn_if_drowned(blocks, prior, kl * (weight * (weight < 1) if num_data is None else 1 / num_data))


def warn_if_drowned(blocks: Sequence[Block], prior: Lengthscale, kl: Tensor, nll: Tensor | None = None) -> None:
    """Look once at what a strong prior weighs beside the data, of which no more can be gained than their likelihood."""
    strong = max(block.fan_in for block in blocks) ** 0.5
    if kl.is_meta or not (prior == "fan_in" or (not isinstance(prior, str) and prior >= strong)):
        return
    weight, data = float(kl.detach()), 0.0 if nll is None else float(nll.detach())
    if weight > max(data, LEAST_TO_WARN):
        beside = f"the likelihood {data:.3g}: it" if nll is not None else "and where the likelihood is less it"
        warn(
            f"the prior `lengthscale={prior!r}` weighs {weight:.3g} nats a row, {beside} drowns the data, and the "
            "weights will go to 0; leave `lengthscale` out, for the prior of a `likelihood`, which fits the size of "
            "the model, or take a smaller number"
        )


def kl_of(
    model: nn.Module, blocks: Sequence[Block], *, num_data: int | Tensor | None, lengthscale: Lengthscale
) -> Tensor:
    """Compute `kl_divergence` of a model whose blocks are known."""
    check_lengthscale(lengthscale, num_data)
    owners: dict[tuple[int, int, int], Block] = {}
    counted: dict[tuple[int, int, int], Tensor] = {}
    weights: list[tuple[Block, float]] = []
    biases: list[tuple[Tensor, float]] = []
    attached: set[int] = set()
    count = 0
    for block in blocks:
        attached.add(id(block.site))
        precision = precision_of(lengthscale, block.fan_in)
        owner = owners.setdefault(_place_of(block.weight), block)
        if owner is block:
            weights.append((block, precision))
            count += block.weight.numel()
        elif owner.site is not block.site:
            raise ValueError(
                f"{owner.name!r} and {block.name!r} have one weight and a rate each, and the KL can only train the "
                "first: they were tied after `learn_dropout`; tie them before it, and they share a rate"
            )
        for bias in block.biases:  # not in a comprehension, whose frame torch.compile cannot take by itself
            if (place := _place_of(bias)) not in counted:
                counted[place] = bias  # kept, because the id of one that is computed could be given again
                biases.append((bias, precision))
                count += bias.numel()
    noises = _check_sites(model, attached)
    scale: float | Tensor = 1.0
    if num_data is not None and lengthscale in CAPS and count:
        ratio = 2 * CAPS[str(lengthscale)] * num_data / count
        scale = ratio.clamp(max=1.0) if isinstance(ratio, Tensor) else min(1.0, ratio)
    terms = _kl_of_blocks(weights, biases, scale)
    terms += [noise.negative_log_prior() for noise in noises]
    total, *others = terms
    for term in others:
        total = total + term.to(total)
    return total


def check_lengthscale(lengthscale: Lengthscale, num_data: int | Tensor | None) -> None:
    """Refuse what is no prior, or one that needs ``num_data`` where there is none."""
    if lengthscale in CAPS:
        if num_data is None:
            raise ValueError(
                f"`lengthscale` {lengthscale!r} depends on the number of rows; give `num_data`, the size of the whole "
                "training set"
            )
    elif lengthscale not in ("fan_in", *OF_FAN_IN) and not (isinstance(lengthscale, (int, float)) and lengthscale > 0):
        raise ValueError(
            '`lengthscale` must be a positive number, "classification", "regression", "fan_in", "weak" or "faint", got '
            f"{lengthscale!r}"
        )


def _kl_of_blocks(
    blocks: list[tuple[Block, float]], biases: list[tuple[Tensor, float]], scale: float | Tensor
) -> list[Tensor]:
    """Give the KL of all sites with one rate and of all biases, in operations over all at once, and of other sites."""
    together = [(block, precision) for block, precision in blocks if block.site.scaled_logit.ndim == 0]
    terms = []
    if tensors := [block.weight for block, _ in together] + [bias for bias, _ in biases]:
        sites = [block.site for block, _ in together]
        device = tensors[0].device
        logits = p_logits(sites, device) if sites else widened(tensors[0].detach()).new_zeros(0)
        known, rest = (scale, 1.0) if isinstance(scale, float) else (1.0, scale)
        numbers = [site.strength * site.num_units for site in sites]
        numbers += [0.5 * known * precision for _, precision in together + biases]
        units, halves = sent(torch.tensor(numbers, dtype=logits.dtype), device).tensor_split([len(sites)])
        terms.append(total_kl(logits, units, halves if known is scale else rest * halves, tensors))
    for block, precision in blocks:
        site = block.site
        if site.scaled_logit.ndim:
            square_norm = whole(widened(block.columns(block.weight)).square().sum(0))
            terms.append(
                dropout_kl(
                    site.p_logit, square_norm, site.num_units, precision=precision * scale, strength=site.strength
                )
            )
    return terms


def precision_of(lengthscale: Lengthscale, fan_in: int) -> float:
    """Precision of the prior of a layer's weights, before a cap."""
    if isinstance(lengthscale, str):
        return OF_FAN_IN.get(lengthscale, 1.0) * fan_in
    return float(lengthscale) ** 2


def _place_of(parameter: Tensor) -> tuple[int, int, int]:
    """Tell parameters apart, or the parts of one that views look at."""
    if parameter._base is None:
        return id(parameter), 0, parameter.numel()
    start = int(parameter.storage_offset() - parameter._base.storage_offset())
    return id(parameter._base), start, parameter.numel()


def _check_sites(model: nn.Module, attached: set[int]) -> list[HomoscedasticNoise]:
    """Refuse a model with a site that is attached to no layer, or without sites; give its noises with a prior."""
    noises = []
    for _, module in named_parts(model):  # once for both, since a walk takes as long as the KL of a small layer
        if isinstance(module, ConcreteDropout):
            if id(module) not in attached:
                name = next(name for name, each in model.named_modules() if each is module)
                raise ValueError(
                    f"site {name!r} is attached to no layer, so its weights are not known; use "
                    "`gumdrop.learn_dropout` to place it"
                )
        elif isinstance(module, HomoscedasticNoise) and module.gamma_prior is not None:
            noises.append(module)
    if not attached:
        raise ValueError("`model` has no learned dropout; convert it with `gumdrop.learn_dropout(model)`")
    return noises
