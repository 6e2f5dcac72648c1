"""The networks, what they are trained on, the rows that are held out, and rows that are like none of these."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop_experiments.data.camvid import VOID, Crops, LabelledPictures, read_camvid
from gumdrop_experiments.data.mnist import read_digits, small_digits
from gumdrop_experiments.data.texts import SST, Vocabulary, encoded_sst
from gumdrop_experiments.data.uci import read_splits
from gumdrop_experiments.harness import Plain, RunOptions, data_folder
from gumdrop_experiments.networks.convolutional import digit_network, perceptron
from gumdrop_experiments.networks.segmentation import NETWORKS
from gumdrop_experiments.networks.transformers import ReviewEncoder
from gumdrop_experiments.shared import seeded, shuffled
from gumdrop_experiments.shift.study import SHIFTS

Pair = tuple[Tensor, Tensor]
IMAGES, HELD_OUT_IMAGES, TEST_IMAGES, TEST_SENTENCES, QUICK_ROWS = 5000, 500, 1000, 1000, 100
CROP, CROPS, QUICK_CROPS = 48, (2200, 64, 80), (8, 8, 8)
"""Pixels of a crop of a street along each side, and crops to train on, held out, and to test."""
ONCE = ("sst-bert", "camvid")
"""Networks that take too long for more than one seed."""


def small_digit_network() -> nn.Sequential:
    """Build a network for 8 x 8 digits, without dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class Reader(nn.Module):
    """An LSTM that reads sentences from their ends, with dropout of what it reads and of what it has read."""

    def __init__(self, num_words: int, *, size: int = 100, hidden: int = 128, rate: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, size, padding_idx=Vocabulary.PADDING)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.before, self.after = nn.Dropout(rate), nn.Dropout(rate)
        self.lstm, self.head = nn.LSTM(size, hidden, batch_first=True), nn.Linear(hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Give logits, shape (N, 2), for sentences as numbers, shape (N, T), 0 behind their ends."""
        read, _ = self.lstm(self.before(self.embedding(words.flip(1))))
        return self.head(self.after(read[:, -1]))


@dataclass(frozen=True)
class Task:
    """A network and its data."""

    build: Callable[[], nn.Module]
    train: Pair
    held_out: Pair
    test: Pair
    strange: Tensor
    """Inputs that are like none of these."""
    epochs: int
    lr: float
    batch_size: int = 32
    rows_at_once: int = 32
    """Held-out rows of a step of `fit_rates`."""
    shifted: Pair | None = None
    """Changed test rows, with their targets."""

    @property
    def has_classes(self) -> bool:
        """Whether targets are classes rather than numbers."""
        return not self.test[1].is_floating_point()


def mixed_columns(x: Tensor, seed: int) -> Tensor:
    """Take each column from rows of its own, which breaks what columns say together."""
    order = torch.stack([shuffled(len(x), seed + i) for i in range(x[0].numel())], dim=1)
    return x.flatten(1).gather(0, order).view_as(x)


def mixed_words(sentences: Tensor, seed: int) -> Tensor:
    """Put words of all sentences in the place of each."""
    words = sentences[sentences != Vocabulary.PADDING]
    drawn = words[torch.randint(len(words), sentences.shape, generator=torch.Generator().manual_seed(seed))]
    return torch.where(sentences == Vocabulary.PADDING, sentences, drawn)


def _table(options: RunOptions, seed: int, *, name: str, epochs: int) -> Task:
    """A fifth of the training rows of a split is held out."""
    split = read_splits(data_folder(options, "uci") / name, most=seed + 1)[seed]
    x, y = split.x_train, split.y_train
    held_out, train = shuffled(len(x), seed).tensor_split([len(x) // 5])
    return Task(
        build=partial(perceptron, x.shape[1], 128, 128, 128),
        train=(x[train], y[train]),
        held_out=(x[held_out], y[held_out]),
        test=(split.x_test, split.y_test),
        strange=mixed_columns(split.x_test, seed),
        epochs=epochs,
        lr=3e-3,
    )


def _digits(options: RunOptions, seed: int) -> Task:
    digits = small_digits()
    parts = shuffled(len(digits.labels), seed).tensor_split([1000, 1300])
    train, held_out, test = map(digits.rows, parts)
    return Task(small_digit_network, train, held_out, test, mixed_columns(test.images, seed), epochs=30, lr=3e-3)


def _mnist(options: RunOptions, seed: int) -> Task:
    """Test images that are turned, blurred or noisy are both strange and scored."""
    train, test = read_digits(options)
    sizes = (QUICK_ROWS,) * 3 if options.quick else (HELD_OUT_IMAGES, IMAGES, TEST_IMAGES)
    rows = shuffled(len(train.labels), seed)[: sum(sizes[:2])]
    held_out, rows = rows.tensor_split([min(sizes[0], len(rows) // 5)])
    test = test.rows(shuffled(len(test.labels), seed)[: sizes[2]])
    changed = [shift.of(test.images, shift.steps[2]) for shift in SHIFTS.values()]
    shifted = torch.cat(changed), test.labels.repeat(len(changed))
    of_pictures: Plain = {"batch_size": 64, "shifted": shifted, "strange": shifted[0]}
    build = partial(digit_network, channel_rate=0.25, unit_rate=0.5)
    return Task(build, train.rows(rows), train.rows(held_out), test, epochs=10, lr=3e-3, **of_pictures)


def _reviews(options: RunOptions, seed: int, *, build: Callable[[int], nn.Module], lr: float) -> Task:
    """The development sentences are held out."""
    folder = data_folder(options, "sst", sources=SST, files=[file.name for file in SST])
    sizes = (QUICK_ROWS,) * 3 if options.quick else (None, None, TEST_SENTENCES)
    (train, held_out, test), num_words = encoded_sst(folder, sizes)
    strange, build = mixed_words(test[0], seed), partial(build, num_words)
    return Task(build, train, held_out, test, strange, epochs=6, lr=lr, batch_size=64)


def _streets(options: RunOptions, seed: int) -> Task:
    """Pixels without a class are one of their own; pictures upside down in inverted colours are like no street."""
    sizes = QUICK_CROPS if options.quick else CROPS
    pictures = read_camvid(options, size=(180, 240), limit=min(sizes) if options.quick else None)
    with seeded(seed):
        train, held_out, test = map(_crops, pictures, sizes)
    build = partial(NETWORKS["small"], VOID + 1)
    return Task(build, train, held_out, test, -test[0].flip(2), epochs=3, lr=3e-3, batch_size=8, rows_at_once=4)


def _crops(pictures: LabelledPictures, count: int) -> Pair:
    x, labels = Crops(pictures, CROP)[torch.arange(count) % len(pictures.labels)]
    return x, labels.long()


TASKS: Mapping[str, Callable[[RunOptions, int], Task]] = {
    "boston-housing": partial(_table, name="boston-housing", epochs=150),
    "concrete-strength": partial(_table, name="concrete-strength", epochs=150),
    "wine-quality-red": partial(_table, name="wine-quality-red", epochs=60),
    "kin8nm": partial(_table, name="kin8nm", epochs=40),
    "digits-cnn": _digits,
    "mnist-cnn": _mnist,
    "sst-lstm": partial(_reviews, build=Reader, lr=2e-3),
    "sst-bert": partial(_reviews, build=partial(ReviewEncoder, rate=0.1), lr=3e-4),
    "camvid": _streets,
}
"""All networks by name; each is made for a seed."""
TABLES = tuple(TASKS)[:4]
