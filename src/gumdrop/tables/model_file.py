"""A table model in its folder: weights as safetensors, all else as JSON, both under checksums."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from gumdrop.ensembles import Architecture
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods.conformal import ConformalLevels
from gumdrop.machine.version import VERSION
from gumdrop.networks.perceptron import Activation
from gumdrop.tables.conformal import Conformal, GroupColumn
from gumdrop.tables.errors import TableError
from gumdrop.tables.folders import MODEL_FILE, steady
from gumdrop.tables.model import TableModel
from gumdrop.tables.plain import plain, record
from gumdrop.tables.profile import Profile
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.task import Cut, task_of

MODEL_FORMAT = 7
WEIGHTS_FILE = "model.safetensors"
BACKGROUND = "background"
LEVELS = "conformal.{}.{}"
"""Tensor of some levels: their number, and the name of the field."""
NAMES = [each.name for each in fields(ConformalLevels)]


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What `MODEL_FILE` says beside its checksum; what is not said here is as in `TableModel`."""

    format: int = MODEL_FORMAT
    gumdrop: str = VERSION
    """Version that wrote it."""
    schema: object
    hidden: list[int]
    num_members: int
    activation: Activation
    num_bins: int
    num_samples: int
    coverage: float
    seed: int
    unit: str
    cut: Cut | None
    profile: Profile | None
    weights_sha256: str
    conformal: list[GroupColumn] | None = None
    """Columns whose groups have levels of their own; None if nothing is conformal."""

    def filled(self, schema: TableSchema, tensors: Mapping[str, Tensor]) -> Any:
        """Build the ensemble around its tensors; nothing is as large as a description says, but as these."""
        if max(self.num_members, len(self.hidden)) > len(tensors):
            sizes = f"{self.num_members} networks with {len(self.hidden)} hidden layers"
            raise ValueError(f"{sizes} in {len(tensors)} tensors")
        if self.num_bins > max(tensor.numel() for tensor in tensors.values()):
            raise ValueError(f"{self.num_bins} bins in these tensors")
        task, width = task_of(schema.target), schema.num_features
        kind = Architecture(tuple(self.hidden), self.activation)
        with torch.device("meta"):
            encodings = [
                PiecewiseLinear(width, self.num_bins) if self.num_bins else None for _ in range(self.num_members)
            ]
            ensemble = task.ensemble([task.network(width, kind, encoding) for encoding in encodings], width)
        ensemble.load_state_dict(tensors, assign=True)
        return ensemble.eval()


def save_model(model: TableModel, folder: Path) -> None:
    """Write a model into a folder that nobody reads yet."""
    levels = model.conformal.levels if model.conformal else ()
    kept = {LEVELS.format(i, name): value for i, each in enumerate(levels) for name, value in vars(each).items()}
    tensors = {**model.ensemble.state_dict(), BACKGROUND: model.background, **kept}
    weights = safetensors.torch.save({name: each.contiguous() for name, each in tensors.items()})
    (folder / WEIGHTS_FILE).write_bytes(weights)  # save_file has errors of its own
    said = {field.name: getattr(model, field.name) for field in fields(_Description) if hasattr(model, field.name)}
    said |= {"schema": model.schema.to_json(), "num_members": len(model.ensemble.members)}
    said |= {"conformal": list(model.conformal.columns) if model.conformal else None}
    description = plain(_Description(**said, weights_sha256=hashlib.sha256(weights).hexdigest()))
    description |= {"sha256": checksum_of(description)}
    (folder / MODEL_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def load_table_model(folder: str | os.PathLike[str]) -> TableModel:
    """Read a model that ``gumdrop fit`` wrote.

    Args:
        folder: The folder that ``gumdrop fit`` left.

    Returns:
        The model, ready to predict.

    Raises:
        TableError: If the folder holds no model, or one that is cut short or of another format.
    """
    return steady(folder, _read)


def _read(path: Path) -> TableModel:
    try:
        file = record(_Description, _description(path))
        schema = TableSchema.from_json(file.schema)
        tensors = _tensors(path / WEIGHTS_FILE, file.weights_sha256)
        background = tensors.pop(BACKGROUND)
        own = {field.name for field in fields(TableModel)}
        said = {name: value for name, value in vars(file).items() if name in own}
        said |= {"schema": schema, "hidden": tuple(file.hidden), "background": background}
        said |= {"conformal": _conformal(file.conformal, tensors)}
        return TableModel(ensemble=file.filled(schema, tensors), **said)
    except TableError:
        raise
    except RuntimeError as error:  # what torch says where names or shapes differ
        raise TableError(f"{path / WEIGHTS_FILE} is of another model; fit again") from error
    except ValueError as error:
        raise TableError(f"{path / MODEL_FILE} is damaged: {error}; fit the model again") from error


def _conformal(columns: list[GroupColumn] | None, tensors: dict[str, Tensor]) -> Conformal | None:
    """Take conformal levels out of the tensors of a file."""
    if columns is None:
        return None
    count = 1 + sum(len(column.places) for column in columns)
    try:
        levels = [{name: tensors.pop(LEVELS.format(i, name)) for name in NAMES} for i in range(count)]
    except KeyError as error:
        raise ValueError(f"it lacks the levels {error}") from error
    return Conformal(tuple(ConformalLevels(**each) for each in levels), tuple(columns))


def _tensors(path: Path, checksum: str) -> dict[str, Tensor]:
    """Read the weights, and the rows that are kept with them."""
    damaged = f"{path} is missing, damaged or of another model; fit again"
    try:
        contents = path.read_bytes()
        if hashlib.sha256(contents).hexdigest() == checksum:
            return safetensors.torch.load(contents)
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise TableError(damaged) from error
    raise TableError(damaged)


def _description(path: Path) -> object:
    """Read what a model is, and refuse what is not what was written."""
    damaged = f"{path / MODEL_FILE} is damaged, or was changed; fit the model again"
    try:
        description = json.loads((path / MODEL_FILE).read_text(encoding="utf-8"))
        version = description["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TableError(damaged) from error
    if version != MODEL_FORMAT:
        newer = isinstance(version, int) and version > MODEL_FORMAT
        way_out = "update gumdrop" if newer else "predict with the version that wrote it"
        raise TableError(
            f"{path} has model format {version} (gumdrop {description.get('gumdrop')}), this is format {MODEL_FORMAT} "
            f"(gumdrop {VERSION}); {way_out}, or fit again"
        )
    if description.pop("sha256", None) != checksum_of(description):
        raise TableError(damaged)
    return description


def checksum_of(description: Mapping[str, object]) -> str:
    """Checksum of all that a description says, in whatever layout."""
    text = json.dumps({name: value for name, value in description.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
