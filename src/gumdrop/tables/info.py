"""What a folder of ``gumdrop fit`` holds, without asking the model anything."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gumdrop.layers.site import GONE
from gumdrop.machine.numerals import readable
from gumdrop.machine.recording import Steps
from gumdrop.networks.rates import dropout_rates
from gumdrop.tables.folders import MODEL_FILE, steady
from gumdrop.tables.model import TableModel
from gumdrop.tables.model_file import load_table_model
from gumdrop.tables.plain import SPARSE
from gumdrop.tables.results import RESULTS_FILE, Rate, Score, Stopped, TableFacts, read_results
from gumdrop.tables.schema.columns import CategoryColumn, Column


@dataclass(frozen=True)
class TargetInfo:
    """The column that a model predicts."""

    name: str
    """Its name."""
    unit: str
    """Its unit, for the reader."""
    task: str
    """Whether it is a number or a class."""
    classes: list[str]
    """Its classes; none if it is a number."""
    mean: float | None = field(default=None, metadata=SPARSE)
    """Mean of the training values; None for classes."""
    std: float | None = field(default=None, metadata=SPARSE)
    """Their standard deviation."""
    steps: Steps | None = field(default=None, metadata=SPARSE)
    """The levels that they are recorded at; None if they are not recorded in steps."""


@dataclass(frozen=True)
class Networks:
    """The networks of a model."""

    members: int
    """How many."""
    hidden: list[int]
    """Units of the hidden layers of each."""
    activation: str
    """What stands between the layers."""
    num_bins: int
    """Bins that the encoded inputs are cut into, in all; 0 where they enter as they are."""
    draws: int
    """Draws for a prediction, spread over them."""
    parameters: int
    """Numbers that were learned, in all."""


@dataclass(frozen=True)
class ColumnInfo:
    """An input column."""

    name: str
    """Its name."""
    kind: str
    """`number`, `date`, `cycle` or `category`."""
    what: str
    """Its training values, in words."""


@dataclass(frozen=True, kw_only=True)
class TableInfo:
    """What is known of a model; what only its results know is None where they are absent."""

    gumdrop: str
    """Version that wrote the model."""
    environment: dict[str, str] | None
    """Versions and hardware of the fit."""
    table: TableFacts | None
    """The table that was fitted."""
    target: TargetInfo
    """The target."""
    likelihood: str
    """The likelihood, in words."""
    scale: list[str]
    """Where the target ends, and on which scale it is predicted, in sentences; none for any number as it is."""
    networks: Networks
    """The networks."""
    coverage: float
    """Probability of the intervals."""
    columns: list[ColumnInfo]
    """The inputs."""
    rates: list[Rate]
    """Learned rate of each layer."""
    background_rows: int
    """Training rows that are kept with the model."""
    scores: list[Score] | None
    """The model and those beside it on the test part."""
    stopped: Stopped | None
    """Where the training was interrupted."""
    seconds: float | None
    """How long the fit took."""


def table_info(folder: Path) -> TableInfo:
    """Gather what is known of a model."""
    return steady(folder, _read)


def _read(folder: Path) -> TableInfo:
    model = load_table_model(folder)
    target = model.schema.target
    known = vars(read_results(folder)) if (folder / RESULTS_FILE).is_file() else {}
    return TableInfo(
        gumdrop=json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))["gumdrop"],
        environment=known.get("environment"),
        table=known.get("table"),
        target=TargetInfo(
            target.name, model.unit, target.task, list(target.classes), *model.task.moments, target.steps
        ),
        likelihood=model.task.likelihood_words,
        scale=model.scale_notes,
        networks=Networks(
            len(model.ensemble.members),
            list(model.hidden),
            model.activation,
            model.num_bins,
            model.num_samples,
            sum(p.numel() for p in model.ensemble.parameters()),
        ),
        coverage=model.coverage,
        columns=[ColumnInfo(column.name, column.kind, _what(column)) for column in model.schema.columns],
        rates=named_rates(model),
        background_rows=len(model.background),
        scores=known.get("scores"),
        stopped=known.get("stopped"),
        seconds=known.get("seconds"),
    )


def _what(column: Column) -> str:
    if isinstance(column, CategoryColumn):
        names = [category or "(missing)" for category in column.categories]
        return f"{len(names)}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    least, most = column.axis.words(column.least), column.axis.words(column.most)
    if column.cycle is not None:
        return f"{column.cycle}, {least} to {most}"
    if column.order is not None:
        cycles = ", ".join(column.parts or ()) or "no cycles"
        return f"{least} to {most}, {column.order.replace('-', ' ')}; {cycles}"
    return f"{least} to {most}, mean {column.rounded(column.mean)}, std {readable(column.std, 3)}"


def named_rates(model: TableModel) -> list[Rate]:
    """Learned rate of each layer, from the inputs on."""
    members = [dropout_rates(member) for member in model.ensemble.members]
    rates = []
    for i, site in enumerate(members[0]):
        features = model.schema.num_features
        bins = f" and {model.num_bins} bins of them" if model.num_bins else ""
        inputs = f"input ({features} encoded feature{'s' if features != 1 else ''}{bins})"
        label = f"hidden layer {i} ({model.hidden[i - 1]} units)" if i else inputs
        p = [float(member[site]) for member in members]
        rates.append(Rate(site, label, float(np.mean(p)), min(p), max(p)))
    return rates


def rates_in_words(rates: Sequence[Rate], num_members: int) -> str:
    """What it means that rates have gone to 0."""
    gone = [rate.label for rate in rates if (rate.p if rate.most is None else rate.most) < GONE]
    if not gone:
        return ""
    if len(gone) < len(rates):
        none = "nothing is dropped there, which adds nothing to the epistemic part"
        rates_have = f"rate of {gone[0]} has" if len(gone) == 1 else f"rates of {' and '.join(gone)} have"
        return f"The {rates_have} gone to 0: {none}."
    left = (
        f"The epistemic part of the uncertainty is only how the {num_members} networks differ"
        if num_members > 1
        else "The epistemic part of the uncertainty is 0 for every row, and says nothing of out-of-distribution rows"
    )
    return f"No dropout is left: every learned rate has gone to 0, so each network always gives one answer. {left}."
