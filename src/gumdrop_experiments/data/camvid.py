"""Pictures with a class for each pixel, in the folder layout of SegNet's tutorial, and as a network gets them."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import Dataset

from gumdrop.attribution import ImageFileError
from gumdrop_experiments.harness import RunOptions, data_folder

CAMVID_COLOURS = {
    "sky": (128, 128, 128),
    "building": (128, 0, 0),
    "pole": (192, 192, 128),
    "road": (128, 64, 128),
    "pavement": (60, 40, 222),
    "tree": (128, 128, 0),
    "sign": (192, 128, 128),
    "fence": (64, 64, 128),
    "car": (64, 0, 128),
    "pedestrian": (64, 64, 0),
    "bicyclist": (0, 128, 192),
}
"""Of each class, in the order of their numbers."""
CAMVID_CLASSES = tuple(CAMVID_COLOURS)
VOID = 11
"""Marks pixels that have no class; they count in no loss and no score."""
MEAN, STD = 0.4, 0.3
"""Roughly those of the pictures, in 0..1."""


class LabelledPictures(NamedTuple):
    """Pictures of one size with a class for each pixel; bytes, so that hundreds fit into memory."""

    pictures: Tensor
    """Shape (N, 3, H, W), uint8."""
    labels: Tensor
    """Shape (N, H, W), uint8; `VOID` where there is no class."""


def read_camvid(options: RunOptions, *, size: tuple[int, int], limit: int | None) -> list[LabelledPictures]:
    """Read the pictures of CamVid to train with, to validate and to test."""
    parts = ("train", "val", "test")
    folder = data_folder(options, "camvid", files=[f"{part}.txt" for part in parts])
    return [read_segnet(folder, part, size=size, limit=limit) for part in parts]


def read_segnet(
    folder: str | os.PathLike[str], part: str, *, size: tuple[int, int] | None = None, limit: int | None = None
) -> LabelledPictures:
    """Read one part of a data set such as CamVid."""
    folder = Path(folder)
    lines = [line.split() for line in (folder / f"{part}.txt").read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines or any(len(line) != 2 for line in lines):
        raise ImageFileError(f"each line of {folder / f'{part}.txt'} must name a picture and its map of classes")
    if limit is not None:
        lines = lines[:: max(1, len(lines) // limit)][:limit]
    pictures, labels = [], []
    for picture, label in lines:
        pictures.append(_read(_place(folder, picture), "RGB", size, Image.Resampling.BOX))
        labels.append(_read(_place(folder, label), "L", size, Image.Resampling.NEAREST))
        if pictures[-1].shape[:2] != labels[-1].shape or pictures[-1].shape != pictures[0].shape:
            raise ImageFileError(
                f"{picture} is {pictures[-1].shape[:2]}, its map {labels[-1].shape} and the first picture "
                f"{pictures[0].shape[:2]} high and wide; bring all to one size with `size`"
            )
    stacked = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
    return LabelledPictures(stacked, torch.from_numpy(np.stack(labels)))


def _place(folder: Path, name: str) -> Path:
    path = folder / name.lstrip("/")
    return path if path.exists() else folder.joinpath(*Path(name).parts[-2:])


def _read(path: Path, mode: str, size: tuple[int, int] | None, resampling: Image.Resampling) -> np.ndarray:
    try:
        with Image.open(path) as file:
            if mode == "L" and file.mode not in ("L", "P"):
                raise ImageFileError(f"{path} must hold one number for each pixel, its class, but is {file.mode}")
            image: Image.Image = file if mode == "L" else file.convert(mode)
            if size is not None:
                image = image.resize((size[1], size[0]), resampling)
            return np.array(image)
    except (FileNotFoundError, UnidentifiedImageError, OSError) as error:
        raise ImageFileError(f"{path} cannot be read as a picture ({error})") from error


class Crops(Dataset[tuple[Tensor, Tensor]]):
    """Random crops, half of them mirrored, a batch at a time; torch's default generator draws them."""

    def __init__(self, pictures: LabelledPictures, size: int) -> None:
        self.pictures, self.size = pictures, size

    def __len__(self) -> int:
        return len(self.pictures.labels)

    def __getitem__(self, rows: Any) -> tuple[Tensor, Tensor]:
        images, labels = [], []
        for row in rows:
            height, width = self.pictures.labels[row].shape
            top = int(torch.randint(height - self.size + 1, ()))
            left = int(torch.randint(width - self.size + 1, ()))
            window = (..., slice(top, top + self.size), slice(left, left + self.size))
            image, label = self.pictures.pictures[row][window], self.pictures.labels[row][window]
            mirrored = bool(torch.rand(()) < 0.5)
            images.append(image.flip(-1) if mirrored else image)
            labels.append(label.flip(-1) if mirrored else label)
        return as_input(torch.stack(images)), torch.stack(labels)


def as_input(pictures: Tensor) -> Tensor:
    """Scale pictures of bytes to inputs of about zero mean and unit variance."""
    return (pictures.float() / 255 - MEAN) / STD
