"""Made-up digits in the files of MNIST."""

import gzip
import struct
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor


def idx(values: Tensor) -> bytes:
    """Write bytes as an IDX file has them."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape) + values.numpy().tobytes()


def write_digits(folder: Path, *, splits: Collection[str] = ("train", "t10k"), count: int = 240, seed: int = 0) -> None:
    """Write bars at ten heights, with noise."""
    generator = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    for split in splits:
        labels = torch.randint(10, (count,), generator=generator)
        images = torch.randint(0, 60, (count, 28, 28), generator=generator, dtype=torch.uint8)
        for row in range(2):
            images[torch.arange(count), 4 + 2 * labels + row, 4:24] = 250
        for kind, values in (("images-idx3", images), ("labels-idx1", labels.to(torch.uint8))):
            (folder / f"{split}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values)))
