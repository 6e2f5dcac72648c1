"""A small transformer of each kind, and text that a program writes for one of them to read."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALPHABET = "\0abcdefghijklmnopqrstuvwxyz -.\n"
"""Characters by their numbers; the first fills up short lines."""
SMALL = [
    *["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
    *["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"],
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _in_words(number: int) -> str:
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{SMALL[number % 10]}" if number % 10 else "")
    rest = f" and {_in_words(number % 100)}" if number % 100 else ""
    return f"{SMALL[number // 100]} hundred{rest}"


def sums(count: int, seed: int) -> list[str]:
    """Write different sums of numbers below 500 in words, such as "seventeen plus four is twenty-one".

    Example:
        >>> sums(1, seed=0)[0].split()[-1].endswith(".")
        True
    """
    if not 1 <= count <= 250_000:
        raise ValueError(f"`count` must be between 1 and 250000, got {count}")
    pairs = torch.randperm(250_000, generator=torch.Generator().manual_seed(seed))[:count].tolist()
    lines = []
    for pair in pairs:
        a, b = divmod(pair, 500)
        lines.append(f"{_in_words(a)} plus {_in_words(b)} is {_in_words(a + b)}.\n")
    return lines


def encoded(lines: list[str]) -> Tensor:
    """Number the characters of lines, (N, T) with T the longest of them, 0 behind their ends."""
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    rows = torch.zeros(len(lines), max(map(len, lines)), dtype=torch.long)
    for row, line in zip(rows, lines, strict=True):
        row[: len(line)] = torch.tensor([numbers[character] for character in line])
    return rows


def character_nll(logits: Tensor, lines: Tensor) -> Tensor:
    """Negative log likelihood of each line, (N,): the sum over its characters, in nats, for logits (N, T, C)."""
    return F.cross_entropy(logits.transpose(1, 2), lines, ignore_index=0, reduction="none").sum(1)


class _Block(nn.Module):
    """Causal attention and a feed-forward part, each normalised first and added to what came in."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.feed_forward = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        """Give the shape of ``x``, (N, T, size)."""
        parts = self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.feed_forward(self.feed_forward_norm(x))


class CharacterModel(nn.Module):
    """A small GPT: each character from those before it."""

    def __init__(self, *, size: int = 96, heads: int = 4, layers: int = 3, longest: int = 128) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(len(ALPHABET), size), nn.Embedding(longest, size)
        self.blocks = nn.Sequential(*(_Block(size, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, len(ALPHABET))

    def forward(self, lines: Tensor) -> Tensor:
        """Give the logits of each character from those before it, shape (N, T, C), for lines of shape (N, T)."""
        before = F.pad(lines[:, :-1], (1, 0))
        x = self.characters(before) + self.places.weight[: lines.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def small_bert(num_words: int, *, size: int = 128, heads: int = 4, longest: int = 64, rate: float = 0.0) -> Any:
    """Build a BERT of Hugging Face for two classes, of two layers, from its configuration alone."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=num_words,
        hidden_size=size,
        num_hidden_layers=2,
        num_attention_heads=heads,
        intermediate_size=2 * size,
        max_position_embeddings=longest,
        hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate,
    )  # of two classes, as it comes
    return BertForSequenceClassification(config)


class ReviewEncoder(nn.Module):
    """A small BERT that gives a class to a sentence."""

    def __init__(self, num_words: int, **options: Any) -> None:
        super().__init__()
        self.bert = small_bert(num_words, **options)

    def forward(self, words: Tensor) -> Tensor:
        """Give logits, shape (N, 2), for sentences as numbers, shape (N, T), 0 behind their ends."""
        words = words[:, : int((words != 0).sum(1).max())]
        return self.bert(input_ids=words, attention_mask=(words != 0).long()).logits
