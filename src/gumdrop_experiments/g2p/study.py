"""The report's network in every setting, and the network with attention at learned and fixed rates."""

import statistics
from functools import partial

from gumdrop_experiments.data.texts import CMUDICT
from gumdrop_experiments.g2p import SPELLERS, Settings
from gumdrop_experiments.g2p.pooled import pooled
from gumdrop_experiments.g2p.spelling import speller_name, spelling, together
from gumdrop_experiments.g2p.words import Words
from gumdrop_experiments.harness import Plain, data_folder, part_name
from gumdrop_experiments.harness.run import Run

LAST_EPOCHS = 10


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
    found = {variant: done[part_name(speller_name(variant))] for variant in spellers}
    if more:
        found[f"{members} learned together"] = run.part(
            part_name("spellers", members), partial(together, run, words, settings, "learned", members)
        )
    return {
        "data": words.counts | {"trained": len(words.train), "tested": len(words.test_words)},
        "pooled": {variant: _settled(done[part_name(variant)]) for variant in readers},
        "spellers": found,
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
