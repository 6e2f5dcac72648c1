"""The report's network: a pooled reading of the letters, and all phones at once."""

import statistics

import torch
from torch import Tensor

from gumdrop.networks import fix_dropout, learn_dropout, set_strength
from gumdrop.prediction import predict_classification
from gumdrop_experiments.g2p.settings import Settings
from gumdrop_experiments.g2p.training import recorded, train
from gumdrop_experiments.g2p.words import Words, until_end
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.regularisers import prior_of
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import START, rate_of
from gumdrop_experiments.networks.spellers import PerStepDropout, PooledReader

__all__ = ["GIVEN", "POOLED", "pooled"]

POOLED = ("fixed 0", "fixed 0.1", "fixed 0.2", "fixed 0.3", "fixed 0.4", "broken", "learned")
GIVEN = "learned, given factors"
"""The variant that takes the factors of ``--regularisers``."""
LR, LENGTHSCALE = 5e-3, 1.0
NO_KL = 10**12
"""So many data that the KL of each counts for nothing: how the report forgot it."""
NUM_SAMPLES, WORDS_AT_ONCE = 10, 200


def pooled(run: Run, words: Words, settings: Settings, variant: str) -> Plain:
    """Train the report's network in one setting, and count the phones that it gets wrong."""
    is_broken = variant == "broken"
    per_step = [PerStepDropout(p=START) for _ in range(3)] if is_broken else None
    model, lengthscale = _build(run, words, variant, per_step), LENGTHSCALE
    if variant == GIVEN and settings.regularisers is not None:
        # The report's loss is a mean over the positions of a word, those behind its end included.
        lengthscale, strength = prior_of(settings.regularisers, num_data=len(words.train), scale=1 / words.longest)
        set_strength(model, strength)
    result = train(
        run,
        model,
        words.for_reader(),
        name=variant,
        epochs=settings.pooled_epochs,
        lr=LR,
        lengthscale=lengthscale,
        num_data=NO_KL if is_broken else None,
    )
    letters = words.letters(words.test_words).to(run.options.device)
    drawn = predict_classification(
        model,
        letters,
        num_samples=NUM_SAMPLES,
        seed=run.options.seed,
        batch_size=WORDS_AT_ONCE,
        output=lambda logits: logits.transpose(1, 2),
    )
    with torch.inference_mode():
        plain = torch.cat([model(part).argmax(-1) for part in letters.split(WORDS_AT_ONCE)])
    return {
        **recorded(result),
        "per_step_rates": [site.p for site in per_step] if per_step else None,
        "hamming": {"no_draws": _hamming(plain, words), "draws": _hamming(drawn.label, words)},
    }


def _build(run: Run, words: Words, variant: str, per_step: list[PerStepDropout] | None) -> PooledReader:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.options.seed)
        model = PooledReader(words.num_letters, len(words.phones), steps=words.longest, per_step=per_step)
    model.to(run.options.device)
    learn_dropout(
        model,
        p=rate_of(variant) if per_step is None else START,
        include=["encoder*", "decoder*", "head"] if per_step is None else ["head"],
        report=lambda report: None,
    )
    return fix_dropout(model) if variant.startswith("fixed") else model


def _hamming(labels: Tensor, words: Words) -> float:
    """Positions that differ from the nearest way of the dictionary, on average over words; the shorter is filled up."""
    distances = []
    for row, word in zip(labels.tolist(), words.test_words, strict=True):
        said = until_end(row)
        distances.append(min(_positions_that_differ(said, way) for way in words.references[word]))
    return statistics.fmean(distances)


def _positions_that_differ(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
