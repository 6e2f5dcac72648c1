"""The words of the dictionary and how they are said, as numbers."""

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop_experiments.data.texts import Pronunciation, Vocabulary, part_of_word, read_cmudict
from gumdrop_experiments.g2p import Settings
from gumdrop_experiments.networks.spellers import Speller

VALIDATION_WORDS = 1000


class Rows(NamedTuple):
    """What a network is trained with: rows of numbers and their targets."""

    train: tuple[Tensor, Tensor]
    """To train with."""
    validation: tuple[Tensor, Tensor]
    """To choose the epoch with."""


class Words:
    """Words and phones as numbers, in the parts that SHA-256 puts words into."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        entries = read_cmudict(folder, stress=settings.stress)
        parts: dict[str, list[Pronunciation]] = {"train": [], "validation": [], "test": []}
        for entry in entries:
            parts[part_of_word(entry.word)].append(entry)
        self.counts = {name: len(part) for name, part in parts.items()}
        self._letters = Vocabulary([entry.word for entry in entries])
        names = sorted({phone for entry in entries for phone in entry.phones})
        self.phones = ("", "start", "end", *names)
        self._numbers = {name: number for number, name in enumerate(self.phones)}
        self.width = max(len(entry.word) for entry in entries)
        self.longest = max(len(entry.phones) for entry in entries) + 1
        self.train = parts["train"] if settings.words is None else _evenly(parts["train"], settings.words)
        # All that the step leaves, which may be a few more.
        self.validation = parts["validation"][:: max(1, len(parts["validation"]) // VALIDATION_WORDS)]
        self.references: dict[str, list[tuple[int, ...]]] = {}
        for entry in parts["test"]:
            self.references.setdefault(entry.word, []).append(self._said(entry))
        self.test_words = _evenly(list(self.references), settings.test_words)

    @property
    def num_letters(self) -> int:
        """Number of letters, with those for padding and for what is unknown."""
        return len(self._letters)

    def _said(self, entry: Pronunciation) -> tuple[int, ...]:
        return tuple(self._numbers[phone] for phone in entry.phones)

    def letters(self, words: Sequence[str]) -> Tensor:
        """Number the letters of words, shape (N, width)."""
        encoded = self._letters.encode(words)
        return nn.functional.pad(encoded, (0, self.width - encoded.shape[1]))

    def targets(self, entries: Sequence[Pronunciation]) -> Tensor:
        """Number the phones of words and their ends, shape (N, longest)."""
        rows = torch.zeros(len(entries), self.longest, dtype=torch.long)
        for row, entry in zip(rows, entries, strict=True):
            said = self._said(entry)
            row[: len(said) + 1] = torch.tensor([*said, Speller.END])
        return rows

    def for_speller(self) -> Rows:
        """Rows and targets of a `Speller`."""
        return Rows(self._spelled(self.train), self._spelled(self.validation))

    def for_reader(self) -> Rows:
        """Rows and targets of a `PooledReader`."""
        return Rows(self._pooled(self.train), self._pooled(self.validation))

    def _spelled(self, entries: Sequence[Pronunciation]) -> tuple[Tensor, Tensor]:
        targets = self.targets(entries)
        start = torch.full((len(entries), 1), Speller.START)
        said = targets[:, :-1] * (targets[:, 1:] != 0)
        return torch.cat([self.letters([entry.word for entry in entries]), start, said], dim=1), targets

    def _pooled(self, entries: Sequence[Pronunciation]) -> tuple[Tensor, Tensor]:
        return self.letters([entry.word for entry in entries]), self.targets(entries)


def _evenly(items: Sequence[Any], count: int) -> list[Any]:
    """Choose this many, evenly over a dictionary that is sorted."""
    return list(items[:: max(1, len(items) // count)][:count])


def until_end(row: Sequence[int]) -> tuple[int, ...]:
    """Return the phones of a word without what follows its end."""
    return tuple(row[: row.index(Speller.END)]) if Speller.END in row else tuple(row)


def hamming(labels: Tensor, references: Sequence[Sequence[tuple[int, ...]]]) -> float:
    """Count the positions that differ from the nearest way to say a word, on average over words (N, T).

    The shorter of both is filled up.
    """
    return statistics.fmean(
        min(sum(a != b for a, b in itertools.zip_longest(until_end(row), way)) for way in ways)
        for row, ways in zip(labels.tolist(), references, strict=True)
    )
