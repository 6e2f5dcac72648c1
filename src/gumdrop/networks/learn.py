"""Give an existing model learned dropout rates, read them, and freeze them again."""

import fnmatch
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import torch
from torch import nn

from gumdrop.layers import SITE, ConcreteDropout
from gumdrop.layers.attach import attach, share_sites
from gumdrop.layers.dense import WeightMatrix
from gumdrop.layers.passes import open_passes
from gumdrop.machine.notes import warn
from gumdrop.networks.choice import choose, reads_one_unit, weight_matrix_of
from gumdrop.networks.plain_dropout import settle, take_over
from gumdrop.networks.report import ConversionReport

__all__ = ["Model", "learn_dropout"]


Model = TypeVar("Model", bound=nn.Module)


HIGHEST_TEMPERATURE = 0.5
"""Of relaxed masks that are still like those of a prediction; `gumdrop reproduce starts` compares."""


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
    plain_dropout: Literal["keep", "remove"] = "keep",
    report: Callable[[ConversionReport], object] | None = None,
) -> Model:
    """Put dropout with a learned rate in front of the layers of a model, in place.

    Known layers are Linear, Conv1d/2d/3d and their transposes (whole channels are dropped), LSTM, GRU and RNN
    (one mask per sequence, a rate for each layer and direction) and MultiheadAttention, wherever they stand, so
    also in TransformerEncoderLayer and TransformerDecoderLayer; Conv1D of transformers (GPT-2) and Linear of PyG;
    on request also Embedding. A layer that reads a single unit or channel is left alone. The model keeps its
    classes, attributes, weights and state-dict keys; the learned logits are new keys,
    ``<layer>.concrete_dropout...scaled_logit``.

    An ``nn.Dropout*`` whose output goes into converted layers only is replaced: it becomes ``nn.Identity``, and
    the layers start from its rate. This is found by tracing the model, or those parts of it that can be traced.
    All other dropout stays and acts as before, on top of learned rates, or is removed.

    Args:
        model: Any model. Layers that have learned dropout already are left as they are.
        p: Initial drop probability of every site that replaces no ``nn.Dropout``, in (0, 1).
        temperature: Temperature of the relaxed masks, positive. From 1/2 up they are no longer like the masks of a
            prediction, which is warned of.
        per_unit: Learn a rate for each input unit (channel) instead of one for each site.
        recurrent: Also drop the hidden state of recurrent modules on its way to the next step, with a rate of
            its own. Such modules run step by step, which is slower.
        embeddings: Also drop word types in front of each Embedding: all occurrences of a word in an example, or
            none. An embedding whose weight another module uses too is left alone.
        include: Names of the layers to convert, as shell patterns (``"encoder.*"``). A layer that reads a single unit
            is converted only where its own name stands here.
        exclude: Names of the layers to leave, as shell patterns.
        types: Convert layers of these types only.
        predicate: Convert layers for which ``predicate(name, layer)`` holds only.
        time_first: Names of layers, as shell patterns, whose input has time in dimension 0 and examples in
            dimension 1, such as a Linear behind a recurrent module without ``batch_first``. Recurrent and
            attention modules and the layers inside ``nn.Transformer*`` know this of themselves.
        custom: Further layer types that take one tensor with the units in its last dimension. Each comes with a
            function that gives a layer's weight as a matrix (rows, K), whose column k dropping unit k zeroes.
        plain_dropout: What becomes of dropout that is not replaced, wherever in the model it is: ``"keep"`` leaves it,
            ``"remove"`` sets its rate to 0. That is all of ``nn.Dropout*``, attention weights, unconverted recurrent
            modules, and numbers called dropout that other modules hold for functions in their code.
        report: Called with the `ConversionReport`; ``report=print`` shows it.

    Returns:
        The same model.

    Raises:
        ValueError: If nothing can be converted, ``p`` or ``temperature`` is outside its range, or ``plain_dropout`` is
            neither of its values.
        TypeError: If ``model`` is no module, or ``include`` or ``exclude`` is a single string.

    References:
        Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).

    Example:
        >>> from gumdrop import dropout_rates
        >>> model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))
        >>> model = learn_dropout(model, report=print)
        learned     0  Linear
        learned     3  Linear
        replaced    2  3 starts from p = 0.5
        >>> {name: round(p, 3) for name, p in dropout_rates(model).items()}
        {'0': 0.1, '3': 0.5}
    """
    _check_arguments(model, (include, exclude, time_first), plain_dropout)
    if temperature > HIGHEST_TEMPERATURE:
        warn(
            f"`temperature={temperature:g}` makes masks that are neither near 0 nor near 1, so that training does not "
            "see the dropout that predictions draw; 0.1 is the usual choice"
        )
    custom, named = dict(custom or {}), frozenset(include)
    wanted = functools.partial(
        _is_wanted, include=tuple(include), exclude=tuple(exclude), types=types, predicate=predicate
    )
    layers, left, unexpected = choose(model, wanted, custom, embeddings=embeddings, recurrent=recurrent, named=named)
    if not layers:
        reasons = _listed(left) or "it has no layers"
        raise ValueError(f"`model` has nothing to convert ({reasons}); see `include`, `types` and `custom`")

    matrices = {name: weight_matrix_of(layer, custom) for name, layer in layers.items()}
    own_input = {
        name: layer for name, layer in layers.items() if name in named or not reads_one_unit(layer, matrices[name])
    }
    start, replaced = take_over(model, own_input, (*custom, *{type(layer) for layer in layers.values()}))
    transposed = _time_first_layers(model) | {id(each) for name, each in layers.items() if _matches(name, time_first)}
    make_site = functools.partial(ConcreteDropout, p=p, per_unit=per_unit, temperature=temperature)
    for name, layer in layers.items():
        device, dtype = _place_of(layer)
        site = functools.partial(make_site, batch_dim=1 if id(layer) in transposed else 0, device=device, dtype=dtype)
        attach(layer, site, recurrent=recurrent, own_input=name in own_input, weight_matrix=matrices[name])
    share_sites(model)
    if not _calls_each_site_once(model):
        open_passes(model)

    between = _start_rates(layers, start)
    _switch_off_what_is_replaced(model, replaced)
    remaining, removed = settle(model, remove=plain_dropout == "remove")
    if report is not None:
        converted = {name: type(layer).__name__ for name, layer in layers.items()}
        report(ConversionReport(converted, replaced | between, left | remaining, removed))
    elif unexpected:
        warn(f"learn_dropout left modules with weights alone ({_listed(unexpected)}); see `custom` and `report`")
    return model


def _check_arguments(model: nn.Module, patterns: Sequence[Sequence[str]], plain_dropout: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}")
    if any(isinstance(each, str) for each in patterns):
        raise TypeError(
            "`include`, `exclude` and `time_first` must be sequences of patterns, as in include=['encoder.*'], got a "
            "single string"
        )
    if plain_dropout not in ("keep", "remove"):
        raise ValueError(f'`plain_dropout` must be "keep" or "remove", got {plain_dropout!r}')
    names = [name for name, _ in model.named_modules()]
    for pattern in itertools.chain(*patterns):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no layer of `model` has a name like {pattern!r}; they are {', '.join(names[1:6])}, ...")


def _place_of(layer: nn.Module) -> tuple[torch.device | None, torch.dtype]:
    """Device and dtype of the rates of a layer; no device where it has no parameters."""
    weight = next(layer.parameters(), None)
    if weight is None:
        return None, torch.float32
    return weight.device, torch.float64 if weight.dtype == torch.float64 else torch.float32


def _start_rates(layers: Mapping[str, nn.Module], start: Mapping[str, float]) -> dict[str, str]:
    """Let sites start from the rates of the plain dropout that they replace; say which stood between layers."""
    between: dict[str, str] = {}
    for name, layer in layers.items():
        if name in start:
            _start_at(layer, start[name], between_layers=False)
        if isinstance(layer, nn.RNNBase) and layer.num_layers > 1 and 0 < layer.dropout < 1:
            _start_at(layer, layer.dropout, between_layers=True)
            own_dropout = f"{name}.dropout".removeprefix(".")
            between[own_dropout] = f"{name or 'the model'} starts from p = {layer.dropout:g} between its layers"
    return between


def _switch_off_what_is_replaced(model: nn.Module, replaced: Iterable[str]) -> None:
    """Take out plain dropout by name, and the detour of transformers around converted layers."""
    for name in replaced:
        model.set_submodule(name, nn.Identity().train(model.get_submodule(name).training))
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(m, ConcreteDropout) for m in module.modules()):
            # Its nested tensors serve only the fused path of its layers, which their sites rule out.
            module.use_nested_tensor = False


def _calls_each_site_once(model: nn.Module) -> bool:
    """Tell whether a model is a chain of layers, none of which stands in it twice, so that each call is a pass."""
    if SITE in model._modules:
        return True
    sites = [site for site in model.modules() if isinstance(site, ConcreteDropout)]
    places = [m for _, m in model.named_modules(remove_duplicate=False) if isinstance(m, ConcreteDropout)]
    parts = [part for part in model.children() if any(isinstance(m, ConcreteDropout) for m in part.modules())]
    return type(model) is nn.Sequential and len(sites) == len(places) and all(map(_calls_each_site_once, parts))


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
            cast(ConcreteDropout, site).start_at(p)


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
