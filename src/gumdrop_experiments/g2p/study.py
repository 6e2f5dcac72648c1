"""The report's network in every setting, and the network with attention at learned and fixed rates."""

import statistics
from collections.abc import Sequence
from functools import partial

import torch

from gumdrop import fix_dropout, learn_dropout, predict_classification
from gumdrop.networks import set_strength
from gumdrop_experiments.data.texts import CMUDICT
from gumdrop_experiments.g2p import GIVEN, SPELLERS, Settings
from gumdrop_experiments.g2p.spelling import speller_name, spelling, together
from gumdrop_experiments.g2p.training import Words, hamming, train, train_as_reported
from gumdrop_experiments.harness import START, Plain, Run, data_folder, part_name, prior_of, rate_of
from gumdrop_experiments.networks.spellers import PerStepDropout, PooledReader
from gumdrop_experiments.shared import seeded

LAST_EPOCHS = 10
LR, LENGTHSCALE = 5e-3, 1.0
ENCODER_LAYERS, RECURRENT_LAYERS = 3, 5
"""Layers with normalised inputs: without and with those of the decoder."""
NO_KL = 10**12
"""So many data that the KL of each counts for nothing: how the report forgot it."""
NUM_SAMPLES, WORDS_AT_ONCE = 10, 200


def study(settings: Settings, run: Run) -> Plain:
    """Train all networks, and count what each says wrong."""
    folder = data_folder(run.options, "g2p", sources=CMUDICT, files=[CMUDICT[0].name])
    words = Words(folder, settings)
    readers: tuple[str, ...] = settings.readers()
    spellers: tuple[str, ...] = SPELLERS
    if settings.networks:
        readers = tuple(variant for variant in readers if variant in settings.networks)
        spellers = tuple(variant for variant in spellers if f"speller {variant}" in settings.networks)
    # The longest comes first, so that with several processes the others share the rest.
    speaking = partial(spelling, run, words, settings)
    calls = {part_name(speller_name(variant)): partial(speaking, variant) for variant in spellers}
    members = settings.members if "learned" in spellers else 1
    more = [(part_name(speller_name("learned", member)), member) for member in range(1, members)]
    calls |= {name: partial(speaking, "learned", member) for name, member in more}
    calls |= {part_name(variant): partial(pooled, run, words, settings, variant) for variant in readers}
    done = run.parts(calls)
    results = {variant: done[part_name(speller_name(variant))] for variant in spellers}
    if more:
        results[f"{members} learned together"] = run.part(
            part_name("spellers", members), partial(together, run, words, settings, "learned", members)
        )
    return {
        "data": words.counts | {"trained": len(words.train), "tested": len(words.test_words)},
        "pooled": {variant: _settled(done[part_name(variant)]) for variant in readers},
        "spellers": results,
        "further_seeds": {f"learned, seed {run.options.seed + member}": done[name] for name, member in more},
    }


def _settled(reader: Plain) -> Plain:
    """Add means and standard deviations of the last epochs where each counts: a constant learning rate leaves noise."""
    history = reader["history"]
    if "validation_hamming" not in history:
        return reader
    last = {name: values[-LAST_EPOCHS:] for name, values in history.items()}
    return reader | {
        "last_epochs": {name: [statistics.fmean(each), statistics.pstdev(each)] for name, each in last.items()}
    }


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
    as_ours = partial(train, lr=LR, seed=run.options.seed)
    learned = (train_as_reported if settings.as_reported else as_ours)(
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
