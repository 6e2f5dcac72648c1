"""What the searches of `cartpole` say together, and how much of them `results.json` keeps."""

import statistics
from collections.abc import Sequence

from gumdrop_experiments.harness.plain import Plain

Record = Plain
"""What there is to say of a trial."""


def summary(runs: Sequence[Sequence[Record]]) -> Plain:
    """Sum up the searches of a variant by their last trials."""
    last = [run[-1] for run in runs]
    rewards = [record["reward"] for record in last]
    firsts = [next((i for i, record in enumerate(run, 1) if record["reached"]), None) for run in runs]
    return {
        "searches": len(runs),
        "median": statistics.median(rewards),
        "least": min(rewards),
        "most": max(rewards),
        "evaluation": statistics.median(record["evaluation"]["reward"] for record in last),
        "reached": sum(record["reached"] for record in last),
        "first_reached": firsts,
        "rates": [statistics.median(each) for each in zip(*(record["rates"] for record in last), strict=True)],
    }


def fan_trials(total: int) -> list[int]:
    """Choose the trials of the fan plot."""
    return sorted({1, min(total, 5) - 1, max(total // 2, 2) - 1, total - 1})


def kept(variant: str, runs: Sequence[Sequence[Record]]) -> list[list[Plain]]:
    """Leave states and particles out of the records, save for those in a figure; the parts hold all."""
    shown = fan_trials(len(runs[0]))

    def left_out(which: int, index: int) -> set[str]:
        fan = set() if which == 0 and index in shown else {"fan"}
        return fan if which == 0 and variant == "learned" else fan | {"states", "actions"}

    return [
        [
            {name: value for name, value in record.items() if name not in left_out(which, index)}
            for index, record in enumerate(run)
        ]
        for which, run in enumerate(runs)
    ]
