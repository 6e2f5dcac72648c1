"""The report's network in every setting, and the network with attention at learned and fixed rates."""

from functools import partial

from gumdrop_experiments.data.texts import CMUDICT
from gumdrop_experiments.g2p.pooled import GIVEN, POOLED, pooled
from gumdrop_experiments.g2p.settings import Settings
from gumdrop_experiments.g2p.spelling import SPELLERS, spelling
from gumdrop_experiments.g2p.words import Words
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import part_name

__all__ = ["study"]


def study(settings: Settings, run: Run) -> Plain:
    """Train all networks, and count what each says wrong."""
    folder = data_folder(run.options, "g2p", sources=CMUDICT, files=[CMUDICT[0].name])
    words = Words(folder, settings)
    # The longest comes first, so that with several processes the others share the rest.
    calls = {part_name("speller", variant): partial(spelling, run, words, settings, variant) for variant in SPELLERS}
    variants = POOLED if settings.regularisers is None else (*POOLED, GIVEN)
    calls |= {part_name(variant): partial(pooled, run, words, settings, variant) for variant in variants}
    done = run.parts(calls)
    return {
        "data": words.counts,
        "pooled": {variant: done[part_name(variant)] for variant in variants},
        "spellers": {variant: done[part_name("speller", variant)] for variant in SPELLERS},
    }
