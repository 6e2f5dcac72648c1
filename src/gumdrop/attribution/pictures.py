"""Explain what a classifier saw in a picture: from two files, or a file and a name, to a figure."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumdrop.attribution.explanation import Explanation
from gumdrop.attribution.fido import FIDO
from gumdrop.attribution.search import FIDOSettings
from gumdrop.networks.stored import import_network, input_sizes, load_program

LARGEST_MASK = 56
"""Finer masks of a photograph follow the noise of its pixels, and take longer to find."""


@dataclass(frozen=True)
class Normalisation:
    """What a model expects of its channels: ``(pixel - mean) / std``, with pixels from 0 to 1."""

    mean: Sequence[float] = (0.0,)
    """One number, or one for each channel."""
    std: Sequence[float] = (1.0,)
    """The same; positive."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not self.std or min(self.std) <= 0:
            raise ValueError(f"`std` must be positive, got {list(self.std)}")

    def __call__(self, pixels: Tensor) -> Tensor:
        """Normalise pixels, shape (C, H, W)."""
        return (pixels - self._channels(self.mean, pixels)) / self._channels(self.std, pixels)

    def undo(self, inputs: Tensor) -> Tensor:
        """Bring inputs of the model, shape (N, C, H, W), back to pixels."""
        return inputs * self._channels(self.std, inputs[0]) + self._channels(self.mean, inputs[0])

    @staticmethod
    def _channels(values: Sequence[float], pixels: Tensor) -> Tensor:
        if len(values) not in (1, len(pixels)):
            raise ValueError(
                f"`mean` and `std` must be one number, or one for each of {len(pixels)} channels, got {len(values)}"
            )
        return torch.tensor(list(values), dtype=pixels.dtype, device=pixels.device)[:, None, None]


@dataclass(frozen=True)
class Classifier:
    """A model, and the shape of its pictures where it is known."""

    forward: Callable[[Tensor], Any]
    """Logits from a batch of pictures."""
    shape: tuple[int, int, int] | None = None
    """Channels, height and width that the model was exported for."""


def load_classifier(name: str, *, device: str = "cpu") -> Classifier:
    """Load a classifier."""
    if not name.endswith(".pt2"):
        return Classifier(import_network(name).to(device))
    program = load_program(Path(name))
    *_, whole = input_sizes(program)
    if len(whole) != 4:
        raise ValueError(f"{name} must take pictures (N, C, H, W), got inputs of shape {tuple(whole)}")
    graph, sizes = program.module().to(device), whole[1:]
    fixed = (int(sizes[0]), int(sizes[1]), int(sizes[2])) if all(isinstance(size, int) for size in sizes) else None
    return Classifier(lambda pictures: graph(pictures), fixed)


def explain_picture(
    classifier: Classifier,
    picture: str | Path,
    *,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    normalisation: Normalisation = Normalisation(),
    mask_size: int | None = None,
    settings: FIDOSettings | None = None,
    device: str = "cpu",
    **options: Any,
) -> Explanation:
    """Read a picture and search for the masks of a classifier's answer to it."""
    if classifier.shape is not None:
        grey, size = classifier.shape[0] == 1, classifier.shape[1:]
    pixels = read_photograph(picture, size=size, grey=grey)
    inputs = normalisation(pixels)[None].to(device)
    cells = tuple(min(side, mask_size or LARGEST_MASK) for side in inputs.shape[2:])
    return FIDO(classifier.forward, settings).explain(inputs, mask_size=cells, **options)


class ImageFileError(ValueError):
    """A file that cannot be read as images or labels."""


def read_photograph(path: str | os.PathLike[str], *, size: tuple[int, int] | None = None, grey: bool = False) -> Tensor:
    """Return a picture in any format that Pillow knows, shape (C, H, W), float32 in [0, 1], brought to a size.

    Raises:
        ImageFileError: If the file is no picture.

    Example:
        >>> read_photograph("cat.jpg", size=(224, 224)).shape  # doctest: +SKIP
        torch.Size([3, 224, 224])
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
