"""The report's network: a pooled reading of the letters, and all phones at once."""

from collections.abc import Sequence

import torch

from gumdrop.likelihoods import Lengthscale
from gumdrop.networks import fix_dropout, learn_dropout, set_strength
from gumdrop.prediction import predict_classification
from gumdrop_experiments.g2p import GIVEN, Settings
from gumdrop_experiments.g2p.training import recorded, train, train_as_reported
from gumdrop_experiments.g2p.words import Rows, Words, hamming
from gumdrop_experiments.harness import START, Plain, prior_of, rate_of
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.spellers import PerStepDropout, PooledReader
from gumdrop_experiments.training import seeded

LR, LENGTHSCALE = 5e-3, 1.0
ENCODER_LAYERS, RECURRENT_LAYERS = 3, 5
"""Layers with normalised inputs: without and with those of the decoder."""
NO_KL = 10**12
"""So many data that the KL of each counts for nothing: how the report forgot it."""
NUM_SAMPLES, WORDS_AT_ONCE = 10, 200


def pooled(run: Run, words: Words, settings: Settings, variant: str) -> Plain:
    """Train the report's network in one setting, and count the phones that it gets wrong."""
    is_broken = variant == "broken"
    layers = RECURRENT_LAYERS if settings.as_reported else ENCODER_LAYERS
    per_step = [PerStepDropout(p=START) for _ in range(layers)] if is_broken else []
    model, lengthscale = _build(run, words, variant, layers, per_step), LENGTHSCALE
    if variant == GIVEN and settings.regularisers is not None:
        # The report's loss is a mean over the positions of a word, those behind its end included.
        lengthscale, strength = prior_of(settings.regularisers, num_data=len(words.train), scale=1 / words.longest)
        set_strength(model, strength)
    learned = (train_as_reported if settings.as_reported else _train)(
        run,
        model,
        words.for_reader(),
        name=variant,
        epochs=settings.pooled_epochs,
        lengthscale=lengthscale,
        num_data=NO_KL if is_broken else len(words.train),
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
    references = [words.references[word] for word in words.test_words]
    return {
        **learned,
        "per_step_rates": [site.p for site in per_step] if per_step else None,
        "hamming": {"no_draws": hamming(plain, references), "draws": hamming(drawn.label, references)},
    }


def _train(
    run: Run, model: PooledReader, rows: Rows, *, name: str, epochs: int, lengthscale: Lengthscale, num_data: int
) -> Plain:
    """Train as the other network, and keep the best epoch by the held-out words."""
    result = train(
        run,
        model,
        rows,
        name=name,
        seed=run.options.seed,
        epochs=epochs,
        lr=LR,
        lengthscale=lengthscale,
        num_data=num_data,
    )
    return recorded(result)


def _build(run: Run, words: Words, variant: str, num_norms: int, per_step: Sequence[PerStepDropout]) -> PooledReader:
    with seeded(run.options.seed):
        model = PooledReader(
            words.num_letters, len(words.phones), steps=words.longest, num_norms=num_norms, per_step=per_step
        )
    model.to(run.options.device)
    learn_dropout(
        model,
        p=START if per_step else rate_of(variant),
        include=["head"] if per_step else ["encoder*", "decoder*", "head"],
        report=lambda report: None,
    )
    return fix_dropout(model) if variant.startswith("fixed") else model
