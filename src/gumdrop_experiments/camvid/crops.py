"""Pictures as a network gets them: scaled, and in training as random crops."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from gumdrop_experiments.data.camvid import LabelledPictures

MEAN, STD = 0.4, 0.3
"""Roughly those of the pictures, in 0..1."""


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
            place = (..., slice(top, top + self.size), slice(left, left + self.size))
            image, label = self.pictures.pictures[row][place], self.pictures.labels[row][place]
            mirrored = bool(torch.rand(()) < 0.5)
            images.append(image.flip(-1) if mirrored else image)
            labels.append(label.flip(-1) if mirrored else label)
        return as_input(torch.stack(images)), torch.stack(labels)


def as_input(pictures: Tensor) -> Tensor:
    """Scale pictures of bytes to inputs of about zero mean and unit variance."""
    return (pictures.float() / 255 - MEAN) / STD
