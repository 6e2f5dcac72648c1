"""Find the best ways to say a word, ask drawn functions about them, and count errors."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.prediction import sample
from gumdrop_experiments.networks.spellers import Speller, phone_nll


@torch.inference_mode()
def beam_search(models: Sequence[Speller], words: Tensor, *, width: int, longest: int) -> tuple[Tensor, Tensor]:
    """Find the most probable ways to say words (N, L), phone by phone, as the mean of models has it.

    Gives phones, (N, width, longest), 0 behind the end, the most probable way first, and their log probabilities.
    """
    count = len(words)
    read = []
    for model in models:
        memory, present = model.read(words)
        read.append((memory.repeat_interleave(width, dim=0), present.repeat_interleave(width, dim=0)))
    said = torch.full((count * width, 1), Speller.START)
    said_so_far = torch.zeros(count, width, 0, dtype=torch.long)
    # At the start all ways are the same one.
    scores = torch.full((count, width), -torch.inf)
    scores[:, 0] = 0
    states: list[tuple[Tensor, Tensor] | None] = [None] * len(models)
    for _ in range(longest):
        steps = [
            model.say(said, memory, present, state)
            for model, (memory, present), state in zip(models, read, states, strict=True)
        ]
        each = torch.stack([torch.log_softmax(logits[:, -1], dim=-1) for logits, _ in steps])
        log_p = (torch.logsumexp(each, dim=0) - math.log(len(models))).view(count, width, -1)
        log_p[:, :, [0, Speller.START]] = -torch.inf
        if said_so_far.shape[2]:  # a way that has ended goes on with nothing, at no cost
            ended = (said_so_far == Speller.END).any(2)
            log_p[ended] = -torch.inf
            log_p[..., 0][ended] = 0
        phones = log_p.shape[2]
        scores, best = (scores.unsqueeze(2) + log_p).flatten(1).topk(width, dim=1)
        parent, phone = best // phones, best % phones
        said_so_far = torch.cat(
            [said_so_far.gather(1, parent.unsqueeze(2).expand_as(said_so_far)), phone[..., None]], 2
        )
        rows = (parent + width * torch.arange(count).unsqueeze(1)).flatten()
        states = [(h[:, rows], c[:, rows]) for _, (h, c) in steps]
        said = phone.view(-1, 1)
        if (said_so_far == Speller.END).any(2).all():
            break
    padding = longest - said_so_far.shape[2]
    return torch.nn.functional.pad(said_so_far, (0, padding)), scores


def judge(
    models: Sequence[Speller], words: Tensor, ways: Tensor, *, num_samples: int, seed: int
) -> tuple[ClassificationPrediction, Tensor]:
    """Ask drawn functions of all models how probable each way to say a word is.

    The ways of one word, (N, B, T), are the classes, and one more stands for all that are not listed. Gives their
    probabilities, and the mean over draws of the uncertainty about each next phone that drawn functions disagree on,
    summed over the most probable way, (N,), in nats.
    """
    count, width, _ = ways.shape
    flat = ways.flatten(0, 1)
    start = torch.full((len(flat), 1), Speller.START)
    rows = torch.cat([words.repeat_interleave(width, dim=0), start, flat[:, :-1]], dim=1)
    with torch.inference_mode():
        logits = torch.cat([sample(model, rows, num_samples=num_samples, seed=seed) for model in models])
        listed = torch.stack([-phone_nll(draw, flat) for draw in logits]).view(-1, count, width)
        rest = torch.log1p(-listed.exp().sum(2, keepdim=True).clamp(max=1 - 1e-6))
        log_p = torch.cat([listed, rest], dim=2)
        entropy = torch.special.entr(log_p.exp()).sum(2).mean(0)
        mixture = torch.logsumexp(log_p, dim=0) - math.log(len(log_p))
        best = mixture[:, :width].argmax(1)
        steps = logits.view(-1, count, width, *logits.shape[2:])[:, torch.arange(count), best]
        return ClassificationPrediction(mixture, entropy), _disagreement(steps, ways[torch.arange(count), best])


def _disagreement(logits: Tensor, phones: Tensor) -> Tensor:
    """Mutual information of function and next phone, summed over the phones of a word."""
    log_p = torch.log_softmax(logits.float(), dim=-1)
    mean = torch.logsumexp(log_p, dim=0).exp() / len(log_p)
    information = torch.special.entr(mean).sum(-1) - torch.special.entr(log_p.exp()).sum(-1).mean(0)
    return (information * (phones[:, : information.shape[1]] != 0)).sum(1)


class Errors(NamedTuple):
    """Errors of said words."""

    wrong: Tensor
    """Which words are said in no way that the dictionary knows, shape (N,)."""
    phone_errors: float
    """Phones inserted, deleted or replaced against the nearest way of the dictionary, for each phone of it."""


def count_errors(said: Sequence[tuple[int, ...]], references: Sequence[Sequence[tuple[int, ...]]]) -> Errors:
    """Hold said words against the dictionary."""
    distances, lengths = [], []
    for phones, ways in zip(said, references, strict=True):
        distance, length = min((Levenshtein.distance(phones, way), len(way)) for way in ways)
        distances.append(distance)
        lengths.append(length)
    return Errors(torch.tensor(distances) > 0, sum(distances) / sum(lengths))
