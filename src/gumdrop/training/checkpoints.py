"""Checkpoints: written whole, read with a check of every tensor."""

import hashlib
import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumdrop.machine.files import replacing
from gumdrop.machine.version import VERSION

CHECKPOINT_FORMAT = 4
State = dict[str, Any]
"""What a checkpoint holds, by name."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be continued from; the message says why and what to do."""


def checksum(*parts: object) -> int:
    """Checksum of data, which must be tensors, so that a run is not continued on others."""
    value = 0
    for part in parts:
        if not isinstance(part, Tensor):
            raise ValueError("`checkpoint` is bound to its data, which must be tensors; got inputs of a `RowSource`")
        value = zlib.crc32(part.detach().cpu().flatten().contiguous().view(torch.uint8).numpy().data, value)
    return value


def write_checkpoint(path: Path, state: Mapping[str, object]) -> None:
    """Write the state of a run, and behind it the SHA-256 of all its bytes."""
    with replacing(path, "w+b") as file:
        torch.save(state, file)
        file.seek(0)
        file.write(hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]  # of a file that is open


def read_checkpoint(path: Path, contents: bytes) -> State:
    """Take what `write_checkpoint` wrote, if no bit of it has changed."""
    size = hashlib.sha256().digest_size
    if hashlib.sha256(memoryview(contents)[:-size]).digest() != contents[-size:]:
        raise CheckpointError(
            f"{path} is no whole checkpoint of gumdrop, or one of before format 3; delete it to start afresh"
        )
    state: State = torch.load(io.BytesIO(contents), weights_only=True)
    version = state["format"]
    if version != CHECKPOINT_FORMAT:
        raise CheckpointError(
            f"{path} has format {version} (gumdrop {state.get('gumdrop')}), this is format {CHECKPOINT_FORMAT} "
            f"(gumdrop {VERSION}); delete it to start afresh, or use the version that wrote it"
        )
    return state
