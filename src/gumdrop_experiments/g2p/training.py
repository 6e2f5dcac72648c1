"""How both networks are trained, and what is written down of it."""

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gumdrop.likelihoods import Lengthscale
from gumdrop.training import FitResult, fit
from gumdrop_experiments.g2p.words import Rows
from gumdrop_experiments.harness import Plain, part_name
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.spellers import ByLength, phone_nll

BATCH_SIZE, MAX_NORM = 128, 5.0
VALIDATION_SAMPLES = 5


def train(
    run: Run,
    model: nn.Module,
    rows: Rows,
    *,
    name: str,
    seed: int,
    epochs: int,
    lr: float,
    lengthscale: Lengthscale,
    num_data: int | None = None,
) -> FitResult:
    """Train a network on batches of words of like length."""
    x, y = rows.train
    lengths = (x != 0).sum(1)
    loader = DataLoader(TensorDataset(x, y), sampler=ByLength(lengths, BATCH_SIZE), batch_size=None)
    return fit(
        model,
        loader,
        likelihood=phone_nll,
        epochs=epochs,
        validation=rows.validation,
        validation_samples=VALIDATION_SAMPLES,
        num_data=num_data,
        lr=lr,
        max_norm=MAX_NORM,
        lengthscale=lengthscale,
        seed=seed,
        checkpoint=run.checkpoint(part_name(name)),
        progress=name,
    )


def recorded(result: FitResult) -> Plain:
    """Losses and rates of each epoch."""
    return {
        "history": {
            "nll": [record.nll for record in result.history],
            "validation_nll": [record.validation_nll for record in result.history],
        },
        "rates": {name: [record.rates[name] for record in result.history] for name in result.history[0].rates},
    }
