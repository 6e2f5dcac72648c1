"""The words of the dictionary as numbers, how both networks are trained on them, and what is written down of it."""

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gumdrop import dropout_rates, negative_elbo, parameter_groups
from gumdrop.likelihoods import Lengthscale
from gumdrop.training import fit
from gumdrop_experiments.data.texts import Pronunciation, Vocabulary, part_of_word, read_cmudict
from gumdrop_experiments.g2p import Settings
from gumdrop_experiments.harness import Plain, Run, part_name
from gumdrop_experiments.networks.spellers import ByLength, PerStepDropout, PooledReader, Speller, phone_nll
from gumdrop_experiments.shared import rates_over, run_epochs, take_step

VALIDATION_WORDS = 1000
LR = 1e-3
BATCH_SIZE = 128


Rows = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Rows of numbers and their targets to train on, and to choose the epoch with."""


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

    def for_reader(self) -> Rows:
        """Letters and phones, for a `PooledReader`."""
        train, validation = (
            (self.letters([entry.word for entry in part]), self.targets(part)) for part in (self.train, self.validation)
        )
        return train, validation

    def for_speller(self) -> Rows:
        """Letters with the phones said before each, and phones, for a `Speller`."""
        train, validation = (_spelled(*pair) for pair in self.for_reader())
        return train, validation


def _spelled(letters: Tensor, phones: Tensor) -> tuple[Tensor, Tensor]:
    start = torch.full((len(phones), 1), Speller.START)
    return torch.cat([letters, start, phones[:, :-1] * (phones[:, 1:] != 0)], dim=1), phones


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


def train(run: Run, model: nn.Module, rows: Rows, *, name: str, **options: Any) -> Plain:
    """Train a network on batches of words of like length; give losses and rates of each epoch."""
    (x, y), validation = rows
    lengths = (x != 0).sum(1)
    loader = DataLoader(TensorDataset(x, y), sampler=ByLength(lengths, BATCH_SIZE), batch_size=None)
    result = fit(
        model,
        loader,
        likelihood=phone_nll,
        validation=validation,
        validation_samples=5,
        max_norm=5.0,
        checkpoint=run.checkpoint(part_name(name)),
        progress=name,
        **options,
    )
    history = {name: [getattr(record, name) for record in result.history] for name in ("nll", "validation_nll")}
    return {"history": history, "rates": rates_over(result)}


def train_as_reported(
    run: Run, model: PooledReader, rows: Rows, *, name: str, epochs: int, lengthscale: Lengthscale, num_data: int
) -> Plain:
    """Train by RMSprop at one learning rate, and leave the model as the last epoch has it, in eval."""
    optimizer = torch.optim.RMSprop(parameter_groups(model, rate_lr=None), lr=LR)

    def run_epoch() -> Plain:
        nll = _epoch(model, optimizer, rows[0], lengthscale, num_data)
        held_out, distance = _scores(model, rows[1])
        return {"nll": nll, "validation_nll": held_out, "validation_hamming": distance, "rates": _rates(model)}

    def say(done: list[Plain]) -> None:
        nll, held_out = done[-1]["nll"], done[-1]["validation_nll"]
        print(f"{name}: epoch {len(done)} of {epochs}, {nll:.3f} nats, held out {held_out:.3f}", flush=True)

    checkpoint = run.checkpoint(part_name(name))
    done = run_epochs(checkpoint, model, optimizer, epochs, seed=run.options.seed, run=run_epoch, say=say)
    model.eval()
    return {
        "history": {key: [epoch[key] for epoch in done] for key in ("nll", "validation_nll", "validation_hamming")},
        "rates": {site: [epoch["rates"][site] for epoch in done] for site in done[0]["rates"]},
    }


def _epoch(
    model: PooledReader,
    optimizer: torch.optim.Optimizer,
    train: tuple[Tensor, Tensor],
    lengthscale: Lengthscale,
    num_data: int,
) -> float:
    x, y = train
    device, total = next(model.parameters()).device, 0.0
    for batch in ByLength((x != 0).sum(1), BATCH_SIZE):
        letters, phones = x[batch].to(device), y[batch].to(device)
        said = phones[:, : int((phones != 0).sum(1).max())] != 0
        nll = phone_nll(model.train()(letters, said), phones)
        loss = negative_elbo(nll, model, num_data=num_data, lengthscale=lengthscale)
        take_step(optimizer, loss.total)
        total += nll.detach().sum().item()
    return total / len(x)


@torch.no_grad()
def _scores(model: PooledReader, rows: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Loss of a word and its Hamming distance, without masks."""
    x, y = rows
    logits = model.eval()(x.to(next(model.parameters()).device)).cpu()
    return phone_nll(logits, y).mean().item(), hamming(logits.argmax(-1), [[until_end(row)] for row in y.tolist()])


def _rates(model: PooledReader) -> dict[str, float]:
    per_step = {f"per_step.{i}": site.p for i, site in enumerate(model.per_step) if isinstance(site, PerStepDropout)}
    return per_step | {name: float(p) for name, p in dropout_rates(model).items()}
