"""Conformal levels that follow a stream: rows whose target has become known move them, and the folder keeps that."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from gumdrop.machine.files import followed
from gumdrop.tables.errors import TableError
from gumdrop.tables.fitting.folder import held_folder, put_in_place
from gumdrop.tables.folders import NEW
from gumdrop.tables.model import TableModel
from gumdrop.tables.model_file import save_model


def follow(model: TableModel, frame: pd.DataFrame, prediction: Any) -> TableModel:
    """Return a model whose conformal levels have followed rows with a known target, in the order of the table."""
    if model.conformal is None:
        raise TableError("`--update` moves conformal levels, and this model has none: fit it with --conformal")
    observed = model.task.observed(model.schema.encode_target(frame), frame[model.schema.target.name])
    conformal = model.conformal.updated(prediction.conformity(observed), prediction.groups)
    return dataclasses.replace(model, conformal=conformal)


def put_model(model: TableModel, folder: Path, notify: Callable[[str], object]) -> None:
    """Write a changed model into the folder that it was read from, whole or not at all; its other files stay."""
    with held_folder(folder, overwrite=True, notify=notify) as work:
        for path in followed(folder).iterdir():
            shutil.copy2(path, work / NEW / path.name)
        save_model(model, work / NEW)
        put_in_place(work, folder, overwrite=True, keep_checkpoints=True)
