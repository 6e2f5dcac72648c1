"""Give an existing model learned dropout rates, read them, and freeze them again."""

import fnmatch
import functools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from gumdrop.layers import (
    SITE,
    ConcreteDropout,
    HomoscedasticNoise,
    WeightMatrix,
    attach,
    dropout_blocks,
    open_passes,
    ordinary_rnn_or_attention,
    share_sites,
)
from gumdrop.tracing import dropout_consumers

__all__ = ["ConversionReport", "dropout_rates", "fix_dropout", "learn_dropout", "parameter_groups"]

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class ConversionReport:
    """What `learn_dropout` did; `str` gives it as a table."""

    converted: Mapping[str, str]
    """Name of each layer that has learned dropout in front of it now, and its class."""
    replaced: Mapping[str, str]
    """Name of each ``nn.Dropout*`` that became learned, and the layer that took it over."""
    left: Mapping[str, str]
    """Name of each module with weights, or with dropout, that was left alone, and why."""

    def __str__(self) -> str:
        """Lay the report out as lines of text."""
        titles = {"learned": self.converted, "replaced": self.replaced, "left alone": self.left}
        rows = [(title, name or "(the model)", what) for title, part in titles.items() for name, what in part.items()]
        width = max((len(name) for _, name, _ in rows), default=0)
        return "\n".join(f"{title:<10}  {name:<{width}}  {what}" for title, name, what in rows)


def learn_dropout(
    model: Model,
    *,
    p: float = 0.1,
    temperature: float = 0.1,
    per_unit: bool = False,
    recurrent: bool = False,
    embeddings: bool = False,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
    types: type[nn.Module] | tuple[type[nn.Module], ...] | None = None,
    predicate: Callable[[str, nn.Module], bool] | None = None,
    time_first: Sequence[str] = (),
    custom: Mapping[type[nn.Module], WeightMatrix] | None = None,
    report: Callable[[ConversionReport], object] | None = None,
) -> Model:
    """Put dropout with a learned rate in front of the layers of a model, in place.

    Known layers are Linear, Conv1d/2d/3d and their transposes (whole channels are dropped), LSTM, GRU and RNN
    (one mask per sequence, a rate for each layer and direction) and MultiheadAttention, wherever they stand, so
    also in TransformerEncoderLayer and TransformerDecoderLayer; on request also Embedding. The model keeps its
    classes, attributes, weights and state-dict keys; the learned logits are new keys,
    ``<layer>.concrete_dropout...p_logit``.

    An ``nn.Dropout*`` whose output goes into converted layers only is replaced: it becomes ``nn.Identity``, and
    the layers start from its rate. This is found by tracing the model, or those parts of it that can be traced.
    All other dropout stays and acts as before.

    Args:
        model: Any model. Layers that have learned dropout already are left as they are.
        p: Initial drop probability of every site that replaces no ``nn.Dropout``, in (0, 1).
        temperature: Temperature of the relaxed masks, positive.
        per_unit: Learn a rate for each input unit (channel) instead of one for each site.
        recurrent: Also drop the hidden state of recurrent modules on its way to the next step, with a rate of
            its own. Such modules run step by step, which is slower.
        embeddings: Also drop word types in front of each Embedding: all occurrences of a word in an example, or
            none. An embedding whose weight another module uses too is left alone.
        include: Names of the layers to convert, as shell patterns (``"encoder.*"``).
        exclude: Names of the layers to leave, as shell patterns.
        types: Convert layers of these types only.
        predicate: Convert layers for which ``predicate(name, layer)`` holds only.
        time_first: Names of layers, as shell patterns, whose input has time in dimension 0 and examples in
            dimension 1, such as a Linear behind a recurrent module without ``batch_first``. Recurrent and
            attention modules and the layers inside ``nn.Transformer*`` know this of themselves.
        custom: Further layer types that take one tensor with the units in its last dimension. Each comes with a
            function that gives a layer's weight as a matrix (rows, K), whose column k dropping unit k zeroes.
        report: Called with the `ConversionReport`; ``report=print`` shows it.

    Returns:
        The same model.

    Raises:
        ValueError: If nothing can be converted, or ``p`` or ``temperature`` is outside its range.
        TypeError: If ``model`` is no module, or ``include`` or ``exclude`` is a single string.

    References:
        Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))
        >>> model = learn_dropout(model, report=print)
        learned     0  Linear
        learned     3  Linear
        replaced    2  3 starts from p = 0.5
        >>> {name: round(p, 3) for name, p in dropout_rates(model).items()}
        {'0': 0.1, '3': 0.5}
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}")
    if any(isinstance(patterns, str) for patterns in (include, exclude, time_first)):
        raise TypeError(
            "`include`, `exclude` and `time_first` must be sequences of patterns, as in include=['encoder.*'], got a "
            "single string"
        )
    names = [name for name, _ in model.named_modules()]
    for pattern in (*include, *exclude, *time_first):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no layer of `model` has a name like {pattern!r}; they are {', '.join(names[1:6])}, ...")
    custom = dict(custom or {})
    wanted = functools.partial(
        _is_wanted, include=tuple(include), exclude=tuple(exclude), types=types, predicate=predicate
    )
    layers, left, unexpected = _choose(model, wanted, tuple(custom), embeddings=embeddings)
    if not layers:
        reasons = _listed(left) or "it has no layers"
        raise ValueError(f"`model` has nothing to convert ({reasons}); see `include`, `types` and `custom`")

    start, dropped = _take_over_dropout(model, layers, tuple(custom))
    replaced = dict(dropped)
    transposed = _time_first_layers(model) | {id(each) for name, each in layers.items() if _matches(name, time_first)}
    for layer in layers.values():
        weight = next(layer.parameters(), None)
        make_site = functools.partial(
            ConcreteDropout,
            p=p,
            per_unit=per_unit,
            temperature=temperature,
            batch_dim=1 if id(layer) in transposed else 0,
            device=None if weight is None else weight.device,
            dtype=torch.float64 if weight is not None and weight.dtype == torch.float64 else torch.float32,
        )
        matrix = next((function for cls, function in custom.items() if isinstance(layer, cls)), None)
        attach(layer, make_site, recurrent=recurrent, weight_matrix=matrix)
    share_sites(model)
    open_passes(model)
    for name, layer in layers.items():
        own_dropout = f"{name}.dropout".removeprefix(".")
        if name in start:
            _start_at(layer, start[name], between_layers=False)
        if isinstance(layer, nn.RNNBase) and layer.num_layers > 1 and 0 < layer.dropout < 1:
            _start_at(layer, layer.dropout, between_layers=True)
            replaced[own_dropout] = f"{name or 'the model'} starts from p = {layer.dropout:g} between its layers"
        if isinstance(layer, nn.MultiheadAttention) and layer.dropout > 0:
            left[own_dropout] = f"dropout of attention weights, p = {layer.dropout:g}; it acts as before"
    for name in dropped:
        model.set_submodule(name, nn.Identity().train(model.get_submodule(name).training))
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(m, ConcreteDropout) for m in module.modules()):
            # Its nested tensors serve only the fused path of its layers, which their sites rule out.
            module.use_nested_tensor = False
        if isinstance(module, _DropoutNd):
            left[name] = (
                f"{type(module).__name__}(p={module.p:g}) was not seen to feed converted layers only; it acts as before"
            )
    if report is not None:
        report(ConversionReport({name: type(layer).__name__ for name, layer in layers.items()}, replaced, left))
    elif unexpected:
        warnings.warn(
            f"learn_dropout left modules with weights alone ({_listed(unexpected)}); see `custom` and `report`",
            stacklevel=2,
        )
    return model


def _listed(reasons: Mapping[str, str], most: int = 5) -> str:
    listed = [f"{name or 'the model'}: {why}" for name, why in reasons.items()]
    return "; ".join(listed[:most]) + (f"; and {len(listed) - most} more" if len(listed) > most else "")


def _start_at(layer: nn.Module, p: float, *, between_layers: bool) -> None:
    """Start the sites on the layer's own input, or those between the layers of a recurrent module, from a rate."""
    holder = layer.get_submodule(SITE)
    for name, site in [("", holder)] if isinstance(holder, ConcreteDropout) else holder.named_children():
        is_between = name.startswith("ih_") and not name.startswith("ih_l0")
        is_inner = is_between or name.startswith("hh_") or name == "out_proj"
        if is_between if between_layers else not is_inner:
            nn.init.constant_(cast(ConcreteDropout, site).p_logit, math.log(p) - math.log1p(-p))


def _is_wanted(
    name: str,
    layer: nn.Module,
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    types: Any,
    predicate: Callable[[str, nn.Module], bool] | None,
) -> bool:
    return (
        _matches(name, include)
        and not _matches(name, exclude)
        and (types is None or isinstance(layer, types))
        and (predicate is None or predicate(name, layer))
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _choose(
    model: nn.Module, wanted: Callable[..., bool], custom: tuple[type[nn.Module], ...], *, embeddings: bool
) -> tuple[dict[str, nn.Module], dict[str, str], dict[str, str]]:
    """Split the modules with weights: to convert, to leave (why), and what of the latter may come as a surprise."""
    layers: dict[str, nn.Module] = {}
    left: dict[str, str] = {}
    unexpected: dict[str, str] = {}
    inside: set[int] = set()
    transposed: dict[int, bool] = {}
    users = Counter(id(weight) for module in model.modules() for weight in module.parameters(recurse=False))
    for name, module in model.named_modules():
        if isinstance(module, (nn.MultiheadAttention, ParametrizationList)):
            inside.update(id(child) for child in module.modules() if child is not module)
        if id(module) in inside or isinstance(module, (ConcreteDropout, ParametrizationList)):
            continue
        reason = _nothing_to_convert(module, custom, embeddings=embeddings)
        surprise = None if reason else _cannot_convert(module, custom)
        if not (reason or (wanted(name, module, predicate=None) if surprise else wanted(name, module))):
            reason = "excluded by `include`, `exclude`, `types` or `predicate`"
        if isinstance(module, _ConvNd) and not (reason or surprise):
            is_transposed = isinstance(module, _ConvTransposeNd)
            if transposed.setdefault(id(next(module.parameters())), is_transposed) != is_transposed:
                surprise = "shares its weight with a converted layer that takes its transpose"
        if isinstance(module, nn.Embedding) and users[id(module.weight)] > 1:
            reason = reason or "shares its weight with another module"
        if not (reason or surprise):
            layers[name] = module
        elif is_parametrized(module) or next(module.parameters(recurse=False), None) is not None:
            left[name] = reason or cast(str, surprise)
            if not reason:
                unexpected[name] = left[name]
    return layers, left, unexpected


_KNOWN = (nn.Linear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)


def _nothing_to_convert(module: nn.Module, custom: tuple[type[nn.Module], ...], *, embeddings: bool) -> str | None:
    kind = type(module).__name__
    if SITE in module._modules:
        return "has learned dropout already"
    if isinstance(module, (*custom, *_KNOWN)):
        return None
    if isinstance(module, nn.Embedding):
        return None if embeddings else f"{kind} takes indices; `embeddings=True` drops word types"
    if isinstance(module, nn.EmbeddingBag):
        return f"{kind} takes indices, which cannot be dropped"
    if isinstance(module, HomoscedasticNoise):
        return f"{kind} has variances and no weights"
    if "Norm" in kind:
        return f"{kind} is a normalisation"
    own = list(module.parameters(recurse=False))
    if not any(isinstance(parameter, UninitializedParameter) or parameter.ndim > 1 for parameter in own):
        return f"{kind} has no weight matrix of its own"
    return None


def _cannot_convert(module: nn.Module, custom: tuple[type[nn.Module], ...]) -> str | None:
    if any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters(recurse=False)):
        return f"{type(module).__name__} is not initialised yet; run the model once first"
    if isinstance(module, (*custom, nn.Linear, nn.Embedding, _ConvNd)):
        return None
    if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return None if ordinary_rnn_or_attention(module) else f"{type(module).__name__} overrides forward"
    return f"{type(module).__name__} is not a known layer type; name it in `custom` if it takes one tensor"


def _time_first_layers(model: nn.Module) -> set[int]:
    """Find the layers whose inputs have the batch in dimension 1: those inside time-first transformer layers."""
    found: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention) and not module.batch_first:
            found.add(id(module))
        if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            if not module.self_attn.batch_first:
                found.update((id(module.linear1), id(module.linear2)))
    return found


def _take_over_dropout(
    model: nn.Module, layers: Mapping[str, nn.Module], leaves: tuple[type[nn.Module], ...]
) -> tuple[dict[str, float], dict[str, str]]:
    """Find the dropout that feeds converted layers only: where these start from, and what is replaced by what."""
    start: dict[str, float] = {}
    replaced: dict[str, str] = {}
    names = {id(layer): name for name, layer in layers.items()}
    for dropout_name, consumers in dropout_consumers(model, leaves):
        p = cast(_DropoutNd, model.get_submodule(dropout_name)).p
        if consumers and all(id(consumer) in names for consumer in consumers) and p < 1:
            fed = list(dict.fromkeys(names[id(consumer)] for consumer in consumers))
            if p > 0:
                start.update(dict.fromkeys(fed, p))
            replaced[dropout_name] = f"{', '.join(fed)} " + (f"starts from p = {p:g}" if p > 0 else "(its p was 0)")
    return start, replaced


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
    """
    for block in _blocks(model):
        block.site.fix()
    return model


def dropout_rates(model: nn.Module) -> dict[str, float | Tensor]:
    """Read the learned drop probabilities.

    Args:
        model: A converted model.

    Returns:
        Drop probability for each site by name: that of the layer, followed by ``.ih_l0``, ``.in_proj`` and the
        like inside recurrent and attention modules. A float, or a tensor of shape ``(num_units,)`` where each
        unit has its own.

    Raises:
        ValueError: If the model has no learned dropout.
    """
    rates = {block.name: block.site.p for block in _blocks(model)}
    return {name: rate.item() if rate.ndim == 0 else rate for name, rate in rates.items()}


def _blocks(model: nn.Module) -> list[Any]:
    blocks = list(dropout_blocks(model))
    if not blocks:
        raise ValueError("`model` has no learned dropout; convert it with `gumdrop.learn_dropout(model)`")
    return blocks


def parameter_groups(
    model: nn.Module, *, weight_decay: float = 0.0, rate_lr: float | None = None
) -> list[dict[str, Any]]:
    """Split the parameters for an optimiser, so that weight decay reaches neither learned rates nor noise.

    Decay on a logit pulls its rate to 0.5, whatever the data say, and decay on a log variance pulls it to 0.

    Args:
        model: A converted model.
        weight_decay: Decay of all other parameters, at least 0. The objective has the prior's own pull on the
            weights in it, so 0 is the consistent choice.
        rate_lr: Learning rate of the logits; that of the optimiser if None.

    Returns:
        Parameter groups: the weights, the logits, and the noise variances where there are any; the last two
        with ``weight_decay=0``.

    Raises:
        ValueError: If ``weight_decay`` is negative.

    Example:
        >>> model = learn_dropout(nn.Linear(4, 2))
        >>> optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.01), lr=1e-3)
        >>> [len(group["params"]) for group in optimizer.param_groups]
        [2, 1]
    """
    if not weight_decay >= 0:
        raise ValueError(f"`weight_decay` must be at least 0, got {weight_decay}")
    logits = {id(m.p_logit): m.p_logit for m in model.modules() if isinstance(m, ConcreteDropout) and not m.is_fixed}
    noise = {id(m.log_variance): m.log_variance for m in model.modules() if isinstance(m, HomoscedasticNoise)}
    weights = [parameter for parameter in model.parameters() if id(parameter) not in logits | noise]
    rates: dict[str, Any] = {"params": list(logits.values()), "weight_decay": 0.0}
    if rate_lr is not None:
        rates["lr"] = rate_lr
    groups = [{"params": weights, "weight_decay": weight_decay}, rates]
    return groups + ([{"params": list(noise.values()), "weight_decay": 0.0}] if noise else [])
