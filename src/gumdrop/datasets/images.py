"""Images as tensors: the IDX files of MNIST, and photographs."""

import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["DigitImages", "ImageFileError", "read_idx", "read_mnist", "read_photograph"]

UNSIGNED_BYTE = 8
"""The element type of an IDX file that this reader knows, and the only one that MNIST uses."""


class ImageFileError(ValueError):
    """A file that cannot be read as images or labels."""


class DigitImages(NamedTuple):
    """Grey images with a class for each."""

    images: Tensor
    """Shape (N, 1, H, W), float32 in [0, 1], 0 is background."""
    labels: Tensor
    """Shape (N,), int64."""


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """Read an IDX file of bytes, gzipped or not.

    The format is big-endian: two zero bytes, the element type, the number of dimensions, the size of each as
    int32, then the elements with the last dimension running fastest.

    Args:
        path: File to read; one whose name ends in ``.gz`` is decompressed.

    Returns:
        Tensor of dtype uint8 with the shape that the file states.

    Raises:
        ImageFileError: If the file is not an IDX file of bytes, or is shorter or longer than it states.
    """
    place = Path(path)
    raw = place.read_bytes()
    if place.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise ImageFileError(f"{place} is not a whole gzip file; fetch it again") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE:
        raise ImageFileError(f"{place} does not begin like an IDX file of bytes (0, 0, 8, dimensions)")
    begin = 4 + 4 * raw[3]
    if len(raw) < begin:
        raise ImageFileError(f"{place} ends within its header")
    shape = struct.unpack(f">{raw[3]}i", raw[4:begin])
    if min(shape, default=0) < 1:
        raise ImageFileError(f"{place} states the shape {shape}; all sizes must be at least 1")
    values = torch.frombuffer(bytearray(raw[begin:]) or bytearray(1), dtype=torch.uint8)
    if values.numel() != torch.Size(shape).numel():
        raise ImageFileError(f"{place} states the shape {shape} but holds {len(raw) - begin} bytes; fetch it again")
    return values.reshape(shape)


def read_mnist(folder: str | os.PathLike[str], *, train: bool = True) -> DigitImages:
    """Read the training or the test images of MNIST, or of a data set in the same files.

    Args:
        folder: Holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two for ``t10k``, each
            as it is or with the ending ``.gz``.
        train: Read the training images, not the test images.

    Returns:
        Images and labels.

    Raises:
        ImageFileError: If a file is missing or damaged, or images and labels do not belong together.
    """
    split = "train" if train else "t10k"
    images = read_idx(_find(Path(folder), f"{split}-images-idx3-ubyte"))
    labels = read_idx(_find(Path(folder), f"{split}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ImageFileError(
            f"the {split} files in {folder} hold images of shape {tuple(images.shape)} and labels of shape "
            f"{tuple(labels.shape)}; wanted are (N, H, W) and (N,)"
        )
    return DigitImages(images[:, None].float() / 255, labels.long())


def read_photograph(path: str | os.PathLike[str], *, size: tuple[int, int] | None = None, grey: bool = False) -> Tensor:
    """Read a picture in any format that Pillow knows.

    Args:
        path: File to read.
        size: Height and width to bring it to, without keeping its proportions; as it is if None.
        grey: Read one channel of brightness, not red, green and blue.

    Returns:
        Shape (C, H, W), float32 in [0, 1].

    Raises:
        ImageFileError: If the file is no picture.
    """
    from PIL import Image

    try:
        with Image.open(path) as opened:
            picture = opened.convert("L" if grey else "RGB")
    except (Image.UnidentifiedImageError, SyntaxError, EOFError) as error:
        raise ImageFileError(f"{path} is no picture that can be read ({error})") from error
    if size is not None:
        picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    values = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return values.reshape(picture.height, picture.width, -1).permute(2, 0, 1).float() / 255


def _find(folder: Path, name: str) -> Path:
    for place in (folder / f"{name}.gz", folder / name):
        if place.is_file():
            return place
    raise ImageFileError(f"{folder / name}.gz is missing; MNIST comes as four such files, see docs/experiments.md")
