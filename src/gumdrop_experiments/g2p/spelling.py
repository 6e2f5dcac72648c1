"""The network with attention: trained, kept in a file, and heard as it says the test words, alone or with others."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gumdrop.machine.files import replacing
from gumdrop.networks import fix_dropout, learn_dropout
from gumdrop_experiments.g2p import Settings
from gumdrop_experiments.g2p.decoding import beam_search, count_errors, judge
from gumdrop_experiments.g2p.training import recorded, train
from gumdrop_experiments.g2p.words import Words, until_end
from gumdrop_experiments.harness import Plain, part_name, rate_of
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.spellers import Speller
from gumdrop_experiments.training import seeded

BEAM, WORDS_AT_ONCE = 5, 200
UNCERTAINTIES = ("disagreement on phones", "mutual information of the list", "entropy of the list", "improbability")
EXAMPLES, WAYS_SHOWN = 6, 3
"""Words with the most disagreement, and as many with the least, that the page shows."""


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
    result = train(
        run,
        model,
        words.for_speller(),
        name=name,
        seed=seed,
        epochs=settings.epochs,
        lr=3e-3,
        lengthscale=settings.lengthscale,
    )
    with replacing(_place(run, variant, member), "wb") as file:
        torch.save(model.state_dict(), file)
    heard = _hear([model.eval()], words, settings.num_samples, run.options.seed)
    return {
        **recorded(result),
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
    """Say the test words, and ask drawn functions how probable each way is."""
    ways, log_p, uncertainties = [], [], []
    for start in range(0, len(words.test_words), WORDS_AT_ONCE):
        letters = words.letters(words.test_words[start : start + WORDS_AT_ONCE])
        found, scores = beam_search(models, letters, width=BEAM, longest=words.longest)
        prediction, disagreement = judge(models, letters, found, num_samples=num_samples, seed=seed)
        by_draws = prediction.log_probabilities[:, :BEAM]
        ways += [[until_end(way) for way in word] for word in found.tolist()]
        log_p.append(torch.stack([scores, by_draws]))
        unlikely = -by_draws.amax(1)
        uncertainties.append(
            torch.stack([disagreement, prediction.mutual_information, prediction.predictive_entropy, unlikely])
        )
    return _Heard(ways, torch.cat(log_p, dim=1), torch.cat(uncertainties, dim=1))


def _judged(heard: _Heard, words: Words) -> Plain:
    """Count errors, and see what announces them."""
    references = [words.references[word] for word in words.test_words]
    results: Plain = {"words": len(heard.ways)}
    for how, scores in zip(("no_draws", "draws"), heard.log_p, strict=True):
        chosen = [word[best] for word, best in zip(heard.ways, scores.argmax(1).tolist(), strict=True)]
        errors = count_errors(chosen, references)
        results[how] = {"wer": errors.wrong.double().mean().item(), "per": errors.phone_errors}
    results["any_of_the_best"] = statistics.fmean(
        any(way in reference for way in word) for word, reference in zip(heard.ways, references, strict=True)
    )
    results["auroc"] = {
        name: _auroc(errors.wrong, row) for name, row in zip(UNCERTAINTIES, heard.uncertainties, strict=True)
    }
    results["doubt"] = heard.uncertainties[0].tolist()
    results["wrong"] = errors.wrong.int().tolist()
    results["examples"] = _examples(heard, words, errors.wrong)
    return results


def _auroc(wrong: Tensor, uncertainty: Tensor) -> float | None:
    """Chance that a wrong word is more uncertain than a right one; None where there are not both."""
    return float(roc_auc_score(wrong, uncertainty)) if 0 < wrong.sum() < len(wrong) else None


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
