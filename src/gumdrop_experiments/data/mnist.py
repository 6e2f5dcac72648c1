"""Images as tensors: the IDX files of MNIST, and photographs."""

import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.attribution import ImageFileError
from gumdrop_experiments.data.download import RemoteFile
from gumdrop_experiments.harness import RunOptions, data_folder

MNIST_SOURCES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MNIST = tuple(
    RemoteFile(name, tuple(source + name for source in MNIST_SOURCES), sha256)
    for name, sha256 in {
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    }.items()
)
"""The four files of LeCun, Cortes & Burges, at two mirrors, since the first address gives them no longer."""

UNSEEN = slice(1000, None)
"""Test images that nobody had looked at when the settings of FIDO were chosen."""
UNSIGNED_BYTE = 8
"""The element type of an IDX file that this reader knows, and the only one that MNIST uses."""


class DigitImages(NamedTuple):
    """Grey images with a class for each."""

    images: Tensor
    """Shape (N, 1, H, W), float32 in [0, 1], 0 is background."""
    labels: Tensor
    """Shape (N,), int64."""

    def rows(self, which: Tensor | slice) -> "DigitImages":
        """Take some of them."""
        return DigitImages(self.images[which], self.labels[which])


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """Read an IDX file of bytes, gzipped or not, as a tensor of the shape that it states.

    The format is big-endian: two zero bytes, the element type, the number of dimensions, the size of each as int32,
    then the elements with the last dimension running fastest.
    """
    file = Path(path)
    raw = file.read_bytes()
    if file.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise ImageFileError(f"{file} is not a whole gzip file; fetch it again") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE:
        raise ImageFileError(f"{file} does not begin like an IDX file of bytes (0, 0, 8, dimensions)")
    begin = 4 + 4 * raw[3]
    if len(raw) < begin:
        raise ImageFileError(f"{file} ends within its header")
    shape = struct.unpack(f">{raw[3]}i", raw[4:begin])
    if min(shape, default=0) < 1:
        raise ImageFileError(f"{file} states the shape {shape}; all sizes must be at least 1")
    values = torch.frombuffer(bytearray(raw[begin:]) or bytearray(1), dtype=torch.uint8)
    if values.numel() != torch.Size(shape).numel():
        raise ImageFileError(f"{file} states the shape {shape} but holds {len(raw) - begin} bytes; fetch it again")
    return values.reshape(shape)


def read_mnist(folder: str | os.PathLike[str], *, train: bool = True) -> DigitImages:
    """Read the training or the test images of MNIST, or of letters, clothes or others in the same files."""
    split = "train" if train else "t10k"
    images = read_idx(_find(Path(folder), split, "images-idx3-ubyte"))
    labels = read_idx(_find(Path(folder), split, "labels-idx1-ubyte"))
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ImageFileError(
            f"the {split} files in {folder} hold images of shape {tuple(images.shape)} and labels of shape "
            f"{tuple(labels.shape)}; wanted are (N, H, W) and (N,)"
        )
    return DigitImages(images[:, None].float() / 255, labels.long())


def read_digits(options: RunOptions) -> tuple[DigitImages, DigitImages]:
    """Read the training and the test images of MNIST, where a run has its data."""
    folder = data_folder(options, "mnist", sources=MNIST)
    return read_mnist(folder), read_mnist(folder, train=False)


def small_digits() -> DigitImages:
    """Read the digits of scikit-learn, 8 x 8 pixels each."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return DigitImages(torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels))


def _find(folder: Path, split: str, what: str) -> Path:
    """Find the one file of a split; the archive counts where both it and its content are there."""
    spellings = ("t10k", "test") if split == "t10k" else (split,)
    paths = {path for word in spellings for path in folder.glob(f"*{word}-{what}*") if path.suffix in ("", ".gz")}
    paths -= {path.with_suffix("") for path in paths if path.suffix == ".gz"}
    if not paths:
        raise ImageFileError(
            f"{folder / split}-{what}.gz is missing; MNIST comes as four such files, see docs/experiments.md"
        )
    if len(paths) > 1:
        names = ", ".join(sorted(path.name for path in paths))
        raise ImageFileError(
            f"{folder} holds several files of {split} {what} ({names}); keep each set in its own folder"
        )
    return paths.pop()
