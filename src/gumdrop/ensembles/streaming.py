"""Train an ensemble on rows that do not fit into memory, one member after the other."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from gumdrop.ensembles.fitting import EnsembleFit, ensemble_of
from gumdrop.ensembles.rows import Rows
from gumdrop.ensembles.scaling import Scaling
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.likelihoods import PLAIN, Likelihood, TargetScale
from gumdrop.machine.threads import limited_threads, threads_for
from gumdrop.training import fit
from gumdrop.training.progress import Show, part_of

BATCH_SIZE, STEPS = 1024, 2500
STREAMED = (50, 50)
"""Units of the hidden layers of networks that are trained on a stream: pilots would cost passes of their own."""


def stream_schedule(num_rows: int, *, batch_size: int | None = None, passes: int | None = None) -> tuple[int, int]:
    """Return batch size and passes for a long table: 1,024 rows, and 2,500 steps or a pass; what is given is kept.

    Example:
        >>> stream_schedule(1_000_000), stream_schedule(10_000_000)
        ((1024, 3), (1024, 1))
    """
    batch_size = batch_size or BATCH_SIZE
    return batch_size, passes or max(1, round(STEPS * batch_size / num_rows))


def fit_streamed_ensemble(
    make: Callable[[], nn.Module],
    rows: Any,
    held_out: Rows,
    settings: EnsembleSettings,
    likelihood: Likelihood,
    *,
    scale: TargetScale = PLAIN,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
) -> EnsembleFit:
    """Train an ensemble on a stream: all members see all rows, in the same order, and have the same held-out rows."""
    members, results = [], []
    batch_size, passes = stream_schedule(rows.num_rows, batch_size=settings.batch_size, passes=settings.epochs)
    count, epochs = settings.members_for(rows.num_rows), passes * rows.epochs_of_a_pass
    seeds = torch.randint(2**31, (count,), generator=torch.Generator().manual_seed(settings.seed)).tolist()
    place = None if checkpoint is None else Path(checkpoint)
    for i, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            member = make()
        with limited_threads(threads_for([member], batch_size)):
            result = fit(
                member,
                DataLoader(rows, batch_size=None),
                likelihood=likelihood,
                validation=(held_out.x, held_out.y),
                num_data=rows.num_rows,
                checkpoint=place and place.with_name(f"{place.stem}-{i}{place.suffix}"),
                progress=part_of(progress, "network", i + 1, count),
                settings=replace(settings, seed=seed).of_members(likelihood, epochs=epochs, batch_size=batch_size),
            )
        members.append(member)
        results.append(result)
    everywhere = [torch.arange(len(held_out))] * count
    ensemble, found = ensemble_of(members, held_out, everywhere, settings, likelihood, Scaling(scale))
    return EnsembleFit(ensemble, results, everywhere, *found)
