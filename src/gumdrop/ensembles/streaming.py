"""Train an ensemble on rows that do not fit into memory, one member after the other."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gumdrop.ensembles.correction import fit_noise
from gumdrop.ensembles.fitting import EnsembleFit
from gumdrop.ensembles.folds import STEPS
from gumdrop.ensembles.models import ClassificationEnsemble, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.objective.kl import Lengthscale
from gumdrop.training import fit

__all__ = ["fit_streamed_ensemble", "stream_schedule"]

BATCH_SIZE = 1024


def stream_schedule(num_rows: int, *, batch_size: int | None = None, passes: int | None = None) -> tuple[int, int]:
    """Batch size and number of passes for a long table; what is given is kept.

    Args:
        num_rows: Rows to train on.
        batch_size: Rows per step; None for 1,024.
        passes: Passes over the rows; None for 2,500 steps, and at least one pass.

    Returns:
        Batch size and passes.

    Example:
        >>> stream_schedule(1_000_000), stream_schedule(10_000_000)
        ((1024, 3), (1024, 1))
    """
    batch_size = batch_size or BATCH_SIZE
    return batch_size, passes or max(1, round(STEPS * batch_size / num_rows))


def fit_streamed_ensemble(
    make: Callable[[], nn.Module],
    rows: Any,
    held_out: tuple[Tensor, Tensor],
    *,
    regression: bool,
    passes: int,
    num_members: int = 5,
    lr: float = 1e-2,
    lengthscale: Lengthscale | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> EnsembleFit:
    """Train an ensemble on a stream: all members see all rows, in the same order, and watch the same others.

    Args:
        make: Builds a network, as for `gumdrop.ensembles.fit_regression_ensembles`; called once for each member.
        rows: Dataset of batches with ``num_rows`` and ``epochs_of_a_pass``, as
            `gumdrop.tables.streams.rows.StreamedRows`.
        held_out: Inputs and targets that are not in the stream.
        regression: Whether targets are numbers; classes otherwise.
        passes: Passes over the rows.
        num_members: Networks in the ensemble.
        lr: Largest learning rate.
        lengthscale: Prior, see `gumdrop.kl_divergence`; None for ``"weak"`` for numbers and 1 for classes.
        seed: Seed of initial weights and masks.
        checkpoint: File to continue from if it exists; the number of the member is added to its name.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        The ensemble, and how its members were trained.
    """
    members, results = [], []
    default: Lengthscale = "weak" if regression else 1.0
    seeds = torch.randint(2**31, (num_members,), generator=torch.Generator().manual_seed(seed)).tolist()
    for i, member_seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(member_seed)
            member = make()
        result = fit(
            member,
            DataLoader(rows, batch_size=None),
            likelihood="gaussian" if regression else "categorical",
            epochs=passes * rows.epochs_of_a_pass,
            validation=held_out,
            num_data=rows.num_rows,
            lr=lr,
            lengthscale=default if lengthscale is None else lengthscale,
            held_out_noise=regression,
            seed=member_seed,
            checkpoint=None if checkpoint is None else _numbered(Path(checkpoint), i),
            progress=progress and f"{progress if isinstance(progress, str) else 'network'} {i + 1} of {num_members}",
        )
        members.append(member)
        results.append(result)
    everywhere = [torch.arange(len(held_out[0]))] * num_members
    if not regression:
        return EnsembleFit(ClassificationEnsemble(members), results, everywhere)
    x, y = held_out
    ensemble = RegressionEnsemble(members, NoiseFunction(x.shape[1], y.shape[1]).to(x.device))
    fit_noise(ensemble, x, y, None, everywhere, None, seed)
    return EnsembleFit(ensemble, results, everywhere)


def _numbered(place: Path, number: int) -> Path:
    return place.with_name(f"{place.stem}-{number}{place.suffix}")
