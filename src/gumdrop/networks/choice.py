"""Which modules of a model can have learned dropout in front of them, why the others cannot, and what was done."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, cast

from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from gumdrop.layers import SITE, ConcreteDropout
from gumdrop.layers.dense import WeightMatrix
from gumdrop.layers.kinds import LayerKind, kind_of
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.networks.uses import never_called

ELSEWHERE: dict[str, WeightMatrix] = {
    "transformers.pytorch_utils.Conv1D": attrgetter("weight.T"),
    "torch_geometric.nn.dense.linear.Linear": attrgetter("weight"),
}
"""Layers of other libraries that take one tensor with the units last: by name, so that nothing is imported."""

IDLE = {"peft.utils.other.ModulesToSaveWrapper": ("original_module", "peft keeps it beside the copy that it trains")}
"""Modules that hold one which they do not call: its name there, and why."""


class Candidates(NamedTuple):
    """The modules with weights of a model, by name."""

    layers: dict[str, nn.Module]
    """Those to convert."""
    left: dict[str, str]
    """Those to leave, and why."""
    unexpected: dict[str, str]
    """What of the latter may come as a surprise."""


def _classes(module: nn.Module) -> list[str]:
    """Name the class of a module and those that it inherits from, with their place."""
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(module).__mro__]


def weight_matrix_of(
    layer: nn.Module, custom: Mapping[type[nn.Module], WeightMatrix] | None = None
) -> WeightMatrix | None:
    """Find the function that gives the weight of a layer that is not PyTorch's."""
    own = (function for cls, function in (custom or {}).items() if isinstance(layer, cls))
    return next(own, None) or next((ELSEWHERE[cls] for cls in _classes(layer) if cls in ELSEWHERE), None)


def reads_one_unit(module: nn.Module, matrix: WeightMatrix | None = None) -> bool:
    """Tell whether a layer has a single input unit or channel: to drop it is to drop all that the layer reads."""
    if matrix is not None:
        return matrix(module).shape[1:] == (1,)
    kind = kind_of(module)
    return kind is not None and kind.num_inputs is not None and getattr(module, kind.num_inputs) == 1


def choose(
    model: nn.Module,
    wanted: Callable[[str, nn.Module], bool],
    predicate: Callable[[str, nn.Module], bool] | None,
    custom: Mapping[type[nn.Module], WeightMatrix],
    embeddings: bool,
    recurrent: bool,
    named: frozenset[str],
) -> Candidates:
    """Split the modules with weights."""
    candidates = Candidates({}, {}, {})
    (inside, idle), passed_by = set_aside(model), never_called(model)
    input_dims: dict[int, int] = {}
    users = Counter(id(weight) for module in model.modules() for weight in module.parameters(recurse=False))
    for name, module in model.named_modules():
        if id(module) in inside or isinstance(module, (ConcreteDropout, ParametrizationList)):
            continue
        matrix, kind = weight_matrix_of(module, custom), kind_of(module)
        is_asked_for = matrix is not None or (kind is not None and (embeddings or not kind.is_on_request))
        reason = _nothing_to_convert(module, kind, is_asked_for) or idle.get(id(module))
        surprise = None if reason else _cannot_convert(module, kind, matrix is not None) or passed_by.get(id(module))
        if not (reason or (wanted(name, module) and (surprise or predicate is None or predicate(name, module)))):
            reason = "excluded by `include`, `exclude`, `types` or `predicate`"
        is_recurrent = isinstance(module, (nn.RNNBase, nn.RNNCellBase))
        has_rest = is_recurrent and (recurrent or getattr(module, "num_layers", 1) > 1)  # to drop, beside its input
        if not (reason or surprise or name in named or has_rest) and reads_one_unit(module, matrix):
            reason = f"{type(module).__name__} reads one unit, and would lose all of its input; name it in `include`"
        if kind is not None and kind.weight_input_dim is not None and not (reason or surprise):
            weight = id(next(module.parameters(), None))
            if input_dims.setdefault(weight, kind.weight_input_dim) != kind.weight_input_dim:
                surprise = "shares its weight with a converted layer that takes its transpose"
        if isinstance(module, nn.Embedding) and users[id(module.weight)] > 1:
            reason = reason or "shares its weight with another module"
        if not (reason or surprise):
            candidates.layers[name] = module
        elif is_parametrized(module) or next(module.parameters(recurse=False), None) is not None:
            candidates.left[name] = reason or cast(str, surprise)
            if not reason:
                candidates.unexpected[name] = candidates.left[name]
    return candidates


def set_aside(model: nn.Module) -> tuple[set[int], dict[int, str]]:
    """Find the modules that belong to another one, which stands for them, and those that are never called, and why."""
    inside: set[int] = set()
    idle: dict[int, str] = {}
    for module in model.modules():
        if isinstance(module, ParametrizationList) or ((kind := kind_of(module)) and kind.stands_for_parts):
            inside.update(id(child) for child in module.modules() if child is not module)
        for cls in _classes(module):
            if cls in IDLE:
                name, why = IDLE[cls]
                idle.update((id(child), why) for child in module.get_submodule(name).modules())
    return inside, idle


def _nothing_to_convert(module: nn.Module, kind: LayerKind | None, is_asked_for: bool) -> str | None:
    name = type(module).__name__
    if SITE in module._modules:
        return "has learned dropout already"
    if is_parametrized(module) and any(isinstance(m, _DropoutNd) for m in module.parametrizations.modules()):  # type: ignore[union-attr]
        return f"{name} has dropout of its weight, in a parametrization"
    if is_asked_for:
        return None
    if kind is not None:
        return f"{name} takes indices; `embeddings=True` drops word types"
    if isinstance(module, nn.EmbeddingBag):
        return f"{name} takes indices, which cannot be dropped"
    if isinstance(module, HomoscedasticNoise):
        return f"{name} has variances and no weights"
    if "Norm" in name:
        return f"{name} is a normalisation"
    own = list(module.parameters(recurse=False))
    if not any(isinstance(parameter, UninitializedParameter) or parameter.ndim > 1 for parameter in own):
        return f"{name} has no weight matrix of its own"
    return None


def _cannot_convert(module: nn.Module, kind: LayerKind | None, has_matrix: bool) -> str | None:
    own = list(module.parameters(recurse=False))
    if any(isinstance(parameter, UninitializedParameter) for parameter in own):
        return f"{type(module).__name__} is not initialised yet; run the model once first"
    if any(parameter.is_complex() for parameter in own):
        return f"{type(module).__name__} has complex weights, for which there is no learned dropout"
    if has_matrix:
        return None
    if kind is None:
        return f"{type(module).__name__} is not a known layer type; name it in `custom` if it takes one tensor"
    return None if kind.accepts(module) else f"{type(module).__name__} overrides forward"


@dataclass(frozen=True)
class ConversionReport:
    """What `learn_dropout` did; `str` gives it as a table."""

    converted: Mapping[str, str]
    """Name of each layer that has learned dropout in front of it now, and its class."""
    replaced: Mapping[str, str]
    """Name of each ``nn.Dropout*`` that became learned, and the layer that took it over."""
    in_place: Mapping[str, str]
    """Name of each dropout of the model's own whose rate is learned where it is, and what it drops."""
    left: Mapping[str, str]
    """Name of each module with weights, or with dropout that still acts, that was left alone, and why."""
    removed: Mapping[str, str]
    """Name of each dropout that was switched off, and what it was."""

    def __str__(self) -> str:
        """Lay the report out as lines of text."""
        titles = {
            "learned": self.converted,
            "replaced": self.replaced,
            "in place": self.in_place,
            "removed": self.removed,
            "left alone": self.left,
        }
        rows = [(title, name or "(the model)", what) for title, part in titles.items() for name, what in part.items()]
        width = max((len(name) for _, name, _ in rows), default=0)
        return "\n".join(f"{title:<10}  {name:<{width}}  {what}" for title, name, what in rows)
