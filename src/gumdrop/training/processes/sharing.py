"""Independent models under torchrun: each process trains some of them, and all get all of them."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from gumdrop.training.processes.group import process_group, with_long_timeout
from gumdrop.training.progress import Show
from gumdrop.training.records import FitResult
from gumdrop.training.settings import TrainingSettings
from gumdrop.training.stacked import fit_stacked


def fit_shared(
    models: Sequence[nn.Module],
    train: Sequence[Any],
    *,
    settings: TrainingSettings,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
    **options: Any,
) -> list[FitResult]:
    """Return what `gumdrop.training.fit_stacked` does of models that are shared out among the processes of torchrun.

    Each process draws masks of its own, and those beyond the first add their number to the name of the checkpoint. One
    that gets no model waits. All of them get all results.
    """
    group = with_long_timeout(process_group())
    if group.world_size == 1:
        return fit_stacked(models, train, settings=settings, checkpoint=checkpoint, progress=progress, **options)
    mine = range(group.rank, len(models), group.world_size)
    for name in ("rows", "held_out", "weights"):
        if options.get(name) is not None:
            options[name] = [options[name][i] for i in mine]
    if checkpoint is not None and group.rank:
        place = Path(checkpoint)
        checkpoint = place.with_name(f"{place.stem}-{group.rank}{place.suffix}")
    results: list[FitResult] = []
    if mine:
        results = fit_stacked(
            [models[i] for i in mine],
            [train[i] for i in mine],
            settings=replace(settings, seed=settings.seed + 2**20 * group.rank),
            checkpoint=checkpoint,
            progress=group.is_first and progress,
            **options,
        )
    found: dict[int, FitResult] = {}
    for part in group.gather([(i, models[i].state_dict(), result) for i, result in zip(mine, results, strict=True)]):
        for i, weights, result in part:
            models[i].load_state_dict(weights)
            models[i].eval()
            found[i] = result
    return [found[i] for i in range(len(models))]
