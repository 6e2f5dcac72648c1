"""The network with attention: trained, kept in a file, and heard as it says the test words, alone or with others."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from rapidfuzz.distance import Levenshtein
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gumdrop import fix_dropout, learn_dropout, sample
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop_experiments.g2p import Settings
from gumdrop_experiments.g2p.training import Words, train, until_end
from gumdrop_experiments.harness import Plain, Run, part_name, rate_of
from gumdrop_experiments.networks.spellers import Speller, phone_nll
from gumdrop_experiments.shared import save_weights, seeded

BEAM, WORDS_AT_ONCE = 5, 200
UNCERTAINTIES = ("disagreement on phones", "mutual information of the list", "entropy of the list", "improbability")
EXAMPLES, WAYS_SHOWN = 6, 3
"""Words with the most disagreement, and as many with the least, that the page shows."""


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
        of_each = torch.stack([torch.log_softmax(logits[:, -1], dim=-1) for logits, _ in steps])
        log_p = (torch.logsumexp(of_each, dim=0) - math.log(len(models))).view(count, width, -1)
        log_p[:, :, [0, Speller.START]] = -torch.inf
        if said_so_far.shape[2]:  # a way that has ended goes on with nothing, at no cost
            ended = (said_so_far == Speller.END).any(2)
            log_p[ended] = -torch.inf
            log_p[..., 0][ended] = 0
        phones = log_p.shape[2]
        scores, best = (scores.unsqueeze(2) + log_p).flatten(1).topk(width, dim=1)
        parent, phone = best // phones, best % phones
        before = said_so_far.gather(1, parent.unsqueeze(2).expand_as(said_so_far))
        said_so_far = torch.cat([before, phone[..., None]], 2)
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


def count_errors(
    said: Sequence[tuple[int, ...]], references: Sequence[Sequence[tuple[int, ...]]]
) -> tuple[Tensor, float]:
    """Say which words are said in no way of the dictionary, (N,), and the share of phones that are to be changed."""
    distances, lengths = [], []
    for phones, ways in zip(said, references, strict=True):
        distance, length = min((Levenshtein.distance(phones, way), len(way)) for way in ways)
        distances.append(distance)
        lengths.append(length)
    return torch.tensor(distances) > 0, sum(distances) / sum(lengths)


class _Heard(NamedTuple):
    """What a network says of W test words."""

    ways: list[list[tuple[int, ...]]]
    """The phones of the best ways to say each word."""
    log_p: Tensor
    """Log probability of each way by the beam search and by drawn functions, shape (2, W, B)."""
    uncertainties: Tensor
    """What may announce an error, in the order of `UNCERTAINTIES`, shape (4, W)."""


def spelling(run: Run, words: Words, settings: Settings, variant: str, member: int = 0) -> Plain:
    """Train a network with attention, keep it in a file, and hear it say the test words."""
    name, seed = speller_name(variant, member), run.options.seed + member
    model = _build(words, variant, seed)
    trained = train(
        run,
        model,
        words.for_speller(),
        name=name,
        seed=seed,
        epochs=settings.epochs,
        lr=3e-3,
        lengthscale=settings.lengthscale,
    )
    save_weights(model, _place(run, variant, member))
    heard = _hear([model.eval()], words, settings.num_samples, run.options.seed)
    return {
        **trained,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "judged": _judged(heard, words),
    }


def together(run: Run, words: Words, settings: Settings, variant: str, members: int) -> Plain:
    """Hear networks that were trained from several seeds say the test words with one voice."""
    models = []
    for member in range(members):
        model = _build(words, variant, run.options.seed + member)
        model.load_state_dict(torch.load(_place(run, variant, member), weights_only=True))
        models.append(model.eval())
    return {"judged": _judged(_hear(models, words, settings.num_samples, run.options.seed), words)}


def speller_name(variant: str, member: int = 0) -> str:
    """Name a network with attention, and its part of the run."""
    return f"speller {variant}" + f" {member}" * (member > 0)


def _place(run: Run, variant: str, member: int) -> Path:
    return run.folder / f"{part_name(speller_name(variant, member))}.pt"


def _build(words: Words, variant: str, seed: int) -> Speller:
    with seeded(seed):
        model = Speller(words.num_letters, len(words.phones), width=words.width)
    learn_dropout(model, p=rate_of(variant), exclude=["letters", "phones"], report=lambda report: None)
    return model if variant == "learned" else fix_dropout(model)


def _hear(models: Sequence[Speller], words: Words, num_samples: int, seed: int) -> _Heard:
    ways, log_p, uncertainties = [], [], []
    for start in range(0, len(words.test_words), WORDS_AT_ONCE):
        letters = words.letters(words.test_words[start : start + WORDS_AT_ONCE])
        spellings, scores = beam_search(models, letters, width=BEAM, longest=words.longest)
        prediction, disagreement = judge(models, letters, spellings, num_samples=num_samples, seed=seed)
        by_draws = prediction.log_probabilities[:, :BEAM]
        ways += [[until_end(way) for way in word] for word in spellings.tolist()]
        log_p.append(torch.stack([scores, by_draws]))
        doubts = disagreement, prediction.mutual_information, prediction.predictive_entropy, -by_draws.amax(1)
        uncertainties.append(torch.stack(doubts))
    return _Heard(ways, torch.cat(log_p, dim=1), torch.cat(uncertainties, dim=1))


def _judged(heard: _Heard, words: Words) -> Plain:
    """Count errors, and see what announces them."""
    references = [words.references[word] for word in words.test_words]
    results: Plain = {"words": len(heard.ways)}
    for how, scores in zip(("no_draws", "draws"), heard.log_p, strict=True):
        chosen = [word[best] for word, best in zip(heard.ways, scores.argmax(1).tolist(), strict=True)]
        wrong, phone_errors = count_errors(chosen, references)
        results[how] = {"wer": wrong.double().mean().item(), "per": phone_errors}
    results["any_of_the_best"] = statistics.fmean(
        any(way in reference for way in word) for word, reference in zip(heard.ways, references, strict=True)
    )
    is_mixed = 0 < wrong.sum() < len(wrong)
    aurocs = (float(roc_auc_score(wrong, row)) if is_mixed else None for row in heard.uncertainties)
    results["auroc"] = dict(zip(UNCERTAINTIES, aurocs, strict=True))
    results["doubt"] = heard.uncertainties[0].tolist()
    results["wrong"] = wrong.int().tolist()
    results["examples"] = _examples(heard, words, wrong)
    return results


def _examples(heard: _Heard, words: Words, wrong: Tensor) -> list[Plain]:
    """The words with the most and with the least disagreement, with the best ways to say them."""

    def said(way: Sequence[int]) -> str:
        return " ".join(words.phones[phone] for phone in way)

    log_p, disagreement = heard.log_p[1], heard.uncertainties[0]
    order = disagreement.argsort(descending=True).tolist()
    examples = []
    for i in order[:EXAMPLES] + order[-EXAMPLES:]:
        best = log_p[i].argsort(descending=True)[:WAYS_SHOWN].tolist()
        examples.append(
            {
                "word": words.test_words[i],
                "ways": [[said(heard.ways[i][b]), log_p[i, b].exp().item()] for b in best],
                "truth": [said(way) for way in words.references[words.test_words[i]]],
                "wrong": bool(wrong[i]),
                "doubt": disagreement[i].item(),
            }
        )
    return examples
