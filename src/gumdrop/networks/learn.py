"""Give an existing model learned dropout rates, read them, and freeze them again."""

import fnmatch
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from gumdrop.layers import ConcreteDropout, DropoutKind
from gumdrop.layers.attach import attach, share_sites
from gumdrop.layers.dense import WeightMatrix
from gumdrop.layers.in_place import DropInPlace
from gumdrop.layers.kinds import kind_of
from gumdrop.layers.table import open_passes
from gumdrop.layers.watch import remember_layers
from gumdrop.machine.notes import warn
from gumdrop.networks.choice import ConversionReport, choose, reads_one_unit, weight_matrix_of
from gumdrop.networks.plain_dropout import (
    OwnDropout,
    layers_with_dropout,
    own_dropout,
    settle,
    start_rates,
    switch_off_replaced,
    take_over,
)
from gumdrop.networks.tracing import Neighbours, dropout_neighbours

Model = TypeVar("Model", bound=nn.Module)


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
    custom: Mapping[type[nn.Module], WeightMatrix | DropoutKind] | None = None,
    plain_dropout: Literal["keep", "remove", "learn"] = "keep",
    report: Callable[[ConversionReport], object] | None = None,
) -> Model:
    """Put dropout with a learned rate in front of the layers of a model, in place.

    Known layers are Linear, Conv1d/2d/3d and their transposes (whole channels are dropped), LSTM, GRU and RNN
    (one mask per sequence, a rate for each layer and direction) and MultiheadAttention, wherever they stand, so
    also in TransformerEncoderLayer and TransformerDecoderLayer; Conv1D of transformers (GPT-2) and Linear of PyG;
    on request also Embedding. A layer that reads a single unit or channel is left alone. The model keeps its
    classes, attributes, weights and state-dict keys; the learned logits are new keys,
    ``<layer>.concrete_dropout...scaled_logit``.

    Dropout whose output goes into converted layers only is replaced: an ``nn.Dropout*`` becomes ``nn.Identity``, and
    the layers start from its rate. This is found by tracing the model or its parts, and else by the text of its code.
    All other dropout stays and acts as before, on top of learned rates, or learns where it is, or is removed.

    Args:
        model: Any model. Layers that have learned dropout already are left as they are.
        p: Initial drop probability of every site that takes the place of no other dropout, in (0, 1).
        temperature: Temperature of the relaxed masks, positive. From 1/2 up they are no longer like the masks of a
            prediction, which is warned of.
        per_unit: Learn a rate for each input unit (channel) of a layer instead of one for each site.
        recurrent: Also drop the hidden state of recurrent modules on its way to the next step, with a rate of
            its own. Such modules run step by step, which is slower.
        embeddings: Also drop word types in front of each Embedding: all occurrences of a word in an example, or
            none. An embedding whose weight another module uses too is left alone.
        include: Names of the layers to convert, as shell patterns (``"encoder.*"``). A layer that reads a single unit
            is converted only where its own name stands here. With ``plain_dropout="learn"`` also layers that dropout
            feeds, whatever stands here.
        exclude: Names of the layers to leave, as shell patterns, and of dropout that is not to learn.
        types: Convert layers of these types only.
        predicate: Convert layers for which ``predicate(name, layer)`` holds only.
        time_first: Names of layers, as shell patterns, whose input has time in dimension 0 and examples in
            dimension 1, such as a Linear behind a recurrent module without ``batch_first``. Recurrent and
            attention modules and what is inside ``nn.Transformer*`` know this of themselves.
        custom: Further types: of layers that take one tensor with the units in its last dimension, each with a
            function that gives a layer's weight as a matrix (rows, K), whose column k dropping unit k zeroes; and of
            modules that drop, each with its `gumdrop.layers.DropoutKind`.
        plain_dropout: What becomes of dropout that is not replaced, wherever in the model it is. ``"keep"`` leaves it,
            ``"remove"`` sets its rate to 0, ``"learn"`` gives it a learned rate where it is, with one mask for each
            example, and names what cannot have one. That is all of ``nn.Dropout*``, stochastic depth, attention weights
            (whole heads are dropped), unconverted recurrent modules, and numbers of a module that its code
            hands to ``dropout`` or ``scaled_dot_product_attention``.
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
        >>> model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.3), nn.ReLU(), nn.Linear(64, 2))
        >>> model = learn_dropout(model, include=[], plain_dropout="learn", report=print)
        in place    1  Dropout(p=0.3)
        left alone  0  excluded by `include`, `exclude`, `types` or `predicate`
        left alone  3  excluded by `include`, `exclude`, `types` or `predicate`
    """
    _check_arguments(model, (include, exclude, time_first), plain_dropout, temperature)
    functions = {cls: matrix for cls, matrix in (custom or {}).items() if not isinstance(matrix, DropoutKind)}
    way, learns, named = plain_dropout, plain_dropout == "learn", frozenset(include)
    neighbours = list(dropout_neighbours(model, tuple(_types_of_layers(model, functions))))
    fed, inside = layers_with_dropout(model, neighbours) if learns else ([], [])
    wanted = functools.partial(_is_wanted, (*include, *fed, *inside), exclude, types)
    layers, left, unexpected = choose(model, wanted, predicate, functions, embeddings, recurrent, named)
    if not (layers or learns):
        raise ValueError(_nothing_to_convert(left))
    where = functools.partial(_where, model, _time_first_modules(model), time_first)
    make_site = functools.partial(_site, where, p=p, per_unit=per_unit, temperature=temperature)
    replaced = _place(model, layers, make_site, functions, neighbours, named, (*include, *fed), recurrent=recurrent)
    settled = settle(model, way, custom or {}, functools.partial(_in_place, where, temperature), neighbours, exclude)
    if not (layers or settled.in_place):
        raise ValueError(_nothing_to_convert(left | settled.left))
    open_passes(model)
    remember_layers(model)
    if report is not None:
        converted = {name: type(layer).__name__ for name, layer in layers.items()}
        report(ConversionReport(converted, replaced, settled.in_place, left | settled.left, settled.removed))
    elif told := unexpected | {n: why for n, why in settled.left.items() if way != "keep" and not _matches(n, exclude)}:
        warn(f"learn_dropout left weights or dropout alone ({_listed(told)}); see `custom` and `report`")
    return model


def _place(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    make_site: Callable[[str, nn.Module], Callable[..., ConcreteDropout]],
    functions: Mapping[type[nn.Module], WeightMatrix],
    neighbours: Sequence[Neighbours],
    named: frozenset[str],
    include: Sequence[str],
    *,
    recurrent: bool,
) -> dict[str, str]:
    """Place a site in front of each layer, in the place of the dropout that feeds it, and say what that was."""
    matrices = {name: weight_matrix_of(layer, functions) for name, layer in layers.items()}
    own_input = {
        name: layer
        for name, layer in layers.items()
        if name in named or (_matches(name, include) and not reads_one_unit(layer, matrices[name]))
    }
    start, replaced = take_over(neighbours, own_input)
    for name, layer in layers.items():
        options = {"recurrent": recurrent, "own_input": name in own_input}
        attach(layer, make_site(name, layer), weight_matrix=matrices[name], **options)
    share_sites(model)
    between = start_rates(layers, start)
    switch_off_replaced(model, replaced)
    return replaced | between


def _check_arguments(
    model: nn.Module, patterns: Sequence[Sequence[str]], plain_dropout: str, temperature: float
) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}")
    if any(isinstance(each, str) for each in patterns):
        raise TypeError(
            "`include`, `exclude` and `time_first` must be sequences of patterns, as in include=['encoder.*'], got a "
            "single string"
        )
    if plain_dropout not in ("keep", "remove", "learn"):
        raise ValueError(f'`plain_dropout` must be "keep", "remove" or "learn", got {plain_dropout!r}')
    if temperature > 0.5:  # `gumdrop reproduce starts` compares
        warn(
            f"`temperature={temperature:g}` makes masks that are neither near 0 nor near 1, so that training does not "
            "see the dropout that predictions draw; 0.1 is the usual choice"
        )
    names = [name for name, _ in model.named_modules()] + [name for name, *_ in own_dropout(model, {})]
    for pattern in itertools.chain(*patterns):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no layer of `model` has a name like {pattern!r}; they are {', '.join(names[1:6])}, ...")


def _nothing_to_convert(left: Mapping[str, str]) -> str:
    reasons = _listed(left) or "it has no layers"
    return f"`model` has nothing to convert ({reasons}); see `include`, `types` and `custom`"


def _types_of_layers(model: nn.Module, functions: Mapping[type[nn.Module], WeightMatrix]) -> set[type[nn.Module]]:
    known = (m for m in model.modules() if kind_of(m) is not None or weight_matrix_of(m, functions) is not None)
    return {*functions, *map(type, known)}


def _where(
    model: nn.Module, transposed: set[int], time_first: Sequence[str], name: str, module: nn.Module
) -> dict[str, Any]:
    """Device and dtype of the rates of a module, those of the weights around it, and the dimension of its examples."""
    weight = next(module.parameters(), None)
    path = name
    while weight is None and path:
        path = path.rpartition(".")[0]
        weight = next(model.get_submodule(path).parameters(), None)
    batch_dim = 1 if id(module) in transposed or _matches(name, time_first) else 0
    dtype = torch.float64 if weight is not None and weight.dtype == torch.float64 else torch.float32
    return {"batch_dim": batch_dim, "device": None if weight is None else weight.device, "dtype": dtype}


def _site(where: Callable[..., Any], name: str, layer: nn.Module, **options: Any) -> Callable[..., ConcreteDropout]:
    return functools.partial(ConcreteDropout, **options, **where(name, layer))


def _in_place(where: Callable[..., Any], temperature: float, name: str, own: OwnDropout) -> Callable[..., DropInPlace]:
    return functools.partial(DropInPlace, p=own.p, temperature=temperature, **where(name, own.module))


def _listed(reasons: Mapping[str, str], most: int = 5) -> str:
    listed = [f"{name or 'the model'}: {why}" for name, why in reasons.items()]
    return "; ".join(listed[:most]) + (f"; and {len(listed) - most} more" if len(listed) > most else "")


def _is_wanted(include: Sequence[str], exclude: Sequence[str], types: Any, name: str, layer: nn.Module) -> bool:
    is_named = _matches(name, include) and not _matches(name, exclude)
    return is_named and (types is None or isinstance(layer, types))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _time_first_modules(model: nn.Module) -> set[int]:
    """Find what has the batch in dimension 1 of its inputs: layers and dropout of time-first transformer layers."""
    modules: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention) and not module.batch_first:
            modules.add(id(module))
        if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            if not module.self_attn.batch_first:
                modules.update(id(child) for child in module.children() if isinstance(child, (nn.Linear, nn.Dropout)))
    return modules
