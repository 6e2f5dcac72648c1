"""Read a table model from its folder, also as earlier versions wrote it."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from gumdrop.ensembles import Architecture
from gumdrop.layers import PiecewiseLinear
from gumdrop.machine.version import VERSION
from gumdrop.networks.mlp import ACTIVATIONS
from gumdrop.tables.errors import TableError
from gumdrop.tables.folders import MODEL_FILE, model_folder
from gumdrop.tables.model import (
    BACKGROUND,
    MODEL_FORMAT,
    OPTIONAL,
    WEIGHTS_FILE,
    TableModel,
    checksum_of,
)
from gumdrop.tables.plain import record
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.task import task_of

WITHOUT_CHECKSUMS = 3
"""The format that lacks checksums, and is read like the next one."""
OF_LOGITS = 4
"""The format whose rates are logits themselves, see `gumdrop.layers.ConcreteDropout`."""
OF_PLAIN_INPUTS = 5
"""The format that does not say what stands between the layers, which is ReLU, and in front, which is nothing; its noise
has no tail, see `gumdrop.ensembles.NoiseFunction`."""
OF_SMOOTH_TARGETS = 6
"""The format that does not say what steps the target is recorded in, nor whether it ends at 0 and what of it networks
see."""


def _filled(schema: TableSchema, description: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """Build the ensemble for a schema around its tensors; nothing is as large as a description says, but as these."""
    hidden, num_members = description["hidden"], description["num_members"]
    if not max(num_members, len(hidden)) <= len(tensors):
        raise ValueError(f"{num_members} networks with {len(hidden)} hidden layers in {len(tensors)} tensors")
    task, num_bins = task_of(schema.target), description.get("num_bins", 0)
    activation = description.get("activation", "relu")
    if activation not in ACTIVATIONS or num_bins > max(tensor.numel() for tensor in tensors.values()):
        raise ValueError(f"networks of {activation!r} and {num_bins} bins in these tensors")
    kind = Architecture(tuple(hidden), activation)
    with torch.device("meta"):
        encodings = [PiecewiseLinear(schema.num_features, num_bins) if num_bins else None for _ in range(num_members)]
        members = [task.network(schema.num_features, kind, each) for each in encodings]
        ensemble = task.ensemble(members, schema.num_features)
    ensemble.load_state_dict(tensors, assign=True)
    return ensemble


def load_table_model(folder: str | os.PathLike[str]) -> TableModel:
    """Read a model that `TableModel.save` wrote.

    Args:
        folder: The folder that ``gumdrop fit`` left.

    Returns:
        The model, ready to predict.

    Raises:
        TableError: If the folder holds no model, or one that is cut short or of another format.
    """
    place = model_folder(folder)
    description = _description(place)
    try:
        contents = (place / WEIGHTS_FILE).read_bytes()
        right = description.get("weights_sha256") in {None, hashlib.sha256(contents).hexdigest()}
        tensors = safetensors.torch.load(contents) if right else {}
        background = tensors.pop(BACKGROUND)
    except (OSError, KeyError, RuntimeError, ValueError, safetensors.SafetensorError) as error:
        raise TableError(f"{place / WEIGHTS_FILE} is missing, damaged or of another model; fit again") from error
    try:
        schema = TableSchema.from_json(description["schema"])
        ensemble = _filled(schema, description, tensors)
        said = {name: description[name] for name in ("num_samples", "coverage", "seed", "unit")}
        known = {name: record(kind, description[name]) for name, kind in OPTIONAL.items() if description.get(name)}
        return TableModel(schema, ensemble.eval(), tuple(description["hidden"]), **said, background=background, **known)
    except TableError:
        raise
    except RuntimeError as error:  # what torch says where names or shapes differ
        raise TableError(f"{place / WEIGHTS_FILE} is of another model; fit again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"{place / MODEL_FILE} is damaged: {error}; fit the model again") from error


def _description(place: Path) -> dict[str, Any]:
    """Read what a model is, and refuse what is not what was written."""
    damaged = f"{place / MODEL_FILE} is damaged, or was changed; fit the model again"
    try:
        description: dict[str, Any] = json.loads((place / MODEL_FILE).read_text(encoding="utf-8"))
        version = description["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TableError(damaged) from error
    if version not in (WITHOUT_CHECKSUMS, OF_LOGITS, OF_PLAIN_INPUTS, OF_SMOOTH_TARGETS, MODEL_FORMAT):
        newer = isinstance(version, int) and version > MODEL_FORMAT
        way_out = "update gumdrop" if newer else "predict with the version that wrote it"
        raise TableError(
            f"{place} has model format {version} (gumdrop {description.get('gumdrop')}), this is format {MODEL_FORMAT} "
            f"(gumdrop {VERSION}); {way_out}, or fit again"
        )
    if version != WITHOUT_CHECKSUMS and description.get("sha256") != checksum_of(description):
        raise TableError(damaged)
    return description
