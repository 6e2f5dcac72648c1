"""Rates of a converted model: read, frozen, and in groups for an optimiser."""

import fnmatch
import math
import numbers
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from gumdrop.layers import dropout_blocks
from gumdrop.layers.attach import check_rates
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.site import sites_of
from gumdrop.networks.learn import Model

Groups = list[dict[str, Any]]
"""Parameters with their options, as the optimisers of torch take them."""
RATE_EPS = 1e-20
"""What Adam adds to the size of a gradient. That of the logit of a small rate p is proportional to p: under the usual
1e-8, a rate of 1e-8 stays where it is, whatever it is asked for later. Below 1e-22 rates stay nevertheless: the squares
of such gradients are 0 in float32."""


class _RateGroup(dict[str, Any]):
    """The group of the rates. Its ``eps`` gives way where that of an optimiser is no number: Adafactor has two."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Take what an optimiser has for an option, unless the group has it."""
        if key == "eps" and not isinstance(default, numbers.Number):
            self[key] = default
        return super().setdefault(key, default)


def fix_dropout(model: Model) -> Model:
    """Freeze the learned rates of a model, in place: from now on it has ordinary dropout at these rates.

    Masks are Bernoulli draws in training too, nothing is left for an objective to learn, and the rates become
    buffers under the same state-dict keys.

    Args:
        model: A converted model.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no learned dropout.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = fix_dropout(learn_dropout(nn.Linear(8, 2), p=0.2))
        >>> [name for name, _ in model.named_parameters()]
        ['weight', 'bias']
    """
    for block in _blocks(model):
        block.site.fix()
    return model


def set_strength(model: Model, strength: float, *, include: Sequence[str] = ("*",)) -> Model:
    """Say how much the entropy of the masks counts against the data, in place.

    The ELBO weighs the entropy by 1/N, so that its rates fall as rows are added, while rows that were held out of
    training may ask for more dropout, or for none. The strength multiplies the entropy: the ELBO's own weights of the
    layers remain, and one number says how far all rates go. Rates are then those of a tempered posterior, to be chosen
    by held-out rows; `gumdrop.training.tune_strength` does.

    Args:
        model: A converted model.
        strength: Factor on the entropy, positive; 1 for the ELBO. It may change as training goes on.
        include: Names of the sites, as `dropout_rates` gives them, as shell patterns (``"encoder.*"``).

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no learned dropout, no site has such a name, or ``strength`` is not positive.

    Example:
        >>> from gumdrop import learn_dropout
        >>> set_strength(learn_dropout(nn.Linear(8, 2)), 10.0).concrete_dropout
        ConcreteDropout(num_units=8, one rate, temperature=0.1, strength=10)
    """
    if not 0 < strength < math.inf:
        raise ValueError(f"`strength` must be a positive number, got {strength}; 1 is the posterior of the ELBO")
    blocks = [block for block in _blocks(model) if any(fnmatch.fnmatchcase(block.name, each) for each in include)]
    if not blocks:
        names = [block.name for block in _blocks(model)]
        raise ValueError(f"no site of `model` has a name like {list(include)}; they are {', '.join(names[:5])}, ...")
    for block in blocks:
        block.site.strength = float(strength)
    return model


def dropout_rates(model: nn.Module) -> dict[str, float | Tensor]:
    """Read the learned drop probabilities.

    Args:
        model: A converted model.

    Returns:
        Drop probability for each site by name: that of the layer, followed by ``.ih_l0``, ``.in_proj`` and the
        like inside recurrent and attention modules. A float, or a tensor of shape ``(num_units,)`` where each
        unit has its own. Below .005 nothing is dropped that shows, and the site adds nothing to the epistemic part:
        `docs/method.md`, 'Why rates fall to 0'.

    Raises:
        ValueError: If the model has no learned dropout, or a rate that was never initialised.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)), p=0.2)
        >>> {name: round(p, 3) for name, p in dropout_rates(model).items()}
        {'0': 0.2, '2': 0.2}
    """
    blocks = _blocks(model)
    check_rates((block.site for block in blocks), model)
    rates = {block.name: block.site.p for block in blocks}
    return {name: rate.item() if rate.ndim == 0 else rate for name, rate in rates.items()}


def _blocks(model: nn.Module) -> list[Any]:
    blocks = list(dropout_blocks(model))
    if not blocks:
        raise ValueError("`model` has no learned dropout; convert it with `gumdrop.learn_dropout(model)`")
    return blocks


def parameter_groups(model: nn.Module, *, weight_decay: float = 0.0, rate_lr: float | None = 0.005) -> Groups:
    """Split the parameters for an optimiser, so that rates move, and weight decay reaches neither them nor noise.

    Decay on a logit pulls its rate to 0.5, whatever the data say, and decay on a log variance pulls it to 0.

    A logit has a longer way to go than a weight, so it is learned in units of ten: an optimiser of the Adam family
    moves it by up to ten times its learning rate a step. Plain gradient descent moves it by the learning rate times
    the gradient of the logit.

    Args:
        model: A converted model.
        weight_decay: Decay of all other parameters, at least 0. The objective has the prior's own pull on the
            weights in it, so 0 is the consistent choice.
        rate_lr: Learning rate of the rates, at which a few hundred steps of Adam bring a rate wherever it wants to be;
            that of the optimiser if None.

    Returns:
        Parameter groups: the weights, the logits, and the noise variances where there are any; the last two
        with ``weight_decay=0``, and the logits with an ``eps`` under which a rate that has fallen can rise again, in
        an optimiser that has one number of this name.

    Raises:
        ValueError: If ``weight_decay`` is negative.

    Example:
        >>> import torch
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(4, 2))
        >>> optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.01), lr=1e-3)
        >>> [len(group["params"]) for group in optimizer.param_groups]
        [2, 1]
    """
    if not weight_decay >= 0:
        raise ValueError(f"`weight_decay` must be at least 0, got {weight_decay}")
    sites = [site for site in sites_of(model) if not site.is_fixed]
    logits = {id(site.scaled_logit): site.scaled_logit for site in sites}
    noise = {id(m.log_variance): m.log_variance for m in model.modules() if isinstance(m, HomoscedasticNoise)}
    weights = [parameter for parameter in model.parameters() if id(parameter) not in logits | noise]
    groups: Groups = [{"params": weights, "weight_decay": weight_decay}]
    groups += [_RateGroup(params=list(logits.values()), weight_decay=0.0, eps=RATE_EPS)]
    if rate_lr is not None:
        groups[1]["lr"] = rate_lr
    return groups + ([{"params": list(noise.values()), "weight_decay": 0.0}] if noise else [])
