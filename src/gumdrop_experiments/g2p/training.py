"""How both networks are trained, and the report's as the report has it; and what is written down of it."""

from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gumdrop.likelihoods import Lengthscale
from gumdrop.networks import dropout_rates, parameter_groups
from gumdrop.objective import negative_elbo
from gumdrop.training import FitResult, fit
from gumdrop_experiments.g2p.words import Rows, hamming, until_end
from gumdrop_experiments.harness import Plain, part_name
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.spellers import ByLength, PerStepDropout, PooledReader, phone_nll
from gumdrop_experiments.training import run_epochs, take_step

LR = 1e-3
BATCH_SIZE = 128


class Epoch(TypedDict):
    """What there is to say of an epoch; a checkpoint holds it as it is."""

    nll: float
    """In training, under masks, in nats per word."""
    validation_nll: float
    """Of held-out words, without masks."""
    validation_hamming: float
    rates: dict[str, float]


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
        validation_samples=5,
        num_data=num_data,
        lr=lr,
        max_norm=5.0,
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


def train_as_reported(
    run: Run, model: PooledReader, rows: Rows, *, name: str, epochs: int, lengthscale: Lengthscale, num_data: int
) -> Plain:
    """Train by RMSprop at one learning rate, and leave the model as the last epoch has it, in eval."""
    optimizer = torch.optim.RMSprop(parameter_groups(model, rate_lr=None), lr=LR)

    def run_epoch() -> Epoch:
        nll = _epoch(model, optimizer, rows.train, lengthscale, num_data)
        held_out, distance = _scores(model, rows.validation)
        return {"nll": nll, "validation_nll": held_out, "validation_hamming": distance, "rates": _rates(model)}

    def say(done: list[Epoch]) -> None:
        nll, held_out = done[-1]["nll"], done[-1]["validation_nll"]
        print(f"{name}: epoch {len(done)} of {epochs}, {nll:.3f} nats, held out {held_out:.3f}", flush=True)

    place = run.checkpoint(part_name(name))
    done: list[Epoch] = run_epochs(place, model, optimizer, epochs, seed=run.options.seed, run=run_epoch, say=say)
    model.eval()
    return {
        "history": {key: [epoch[key] for epoch in done] for key in ("nll", "validation_nll", "validation_hamming")},
        "rates": {site: [epoch["rates"][site] for epoch in done] for site in done[0]["rates"]},
    }


def _epoch(
    model: PooledReader,
    optimizer: torch.optim.Optimizer,
    train: tuple[Tensor, Tensor],
    lengthscale: Lengthscale,
    num_data: int,
) -> float:
    """Pass once over the words; return the mean loss of a word."""
    x, y = train
    device, total = next(model.parameters()).device, 0.0
    for batch in ByLength((x != 0).sum(1), BATCH_SIZE):
        letters, phones = x[batch].to(device), y[batch].to(device)
        said = phones[:, : int((phones != 0).sum(1).max())] != 0
        nll = phone_nll(model.train()(letters, said), phones)
        loss = negative_elbo(nll, model, num_data=num_data, lengthscale=lengthscale)
        take_step(optimizer, loss.total)
        total += nll.detach().sum().item()
    return total / len(x)


@torch.no_grad()
def _scores(model: PooledReader, rows: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Loss of a word and its Hamming distance, without masks."""
    x, y = rows
    logits = model.eval()(x.to(next(model.parameters()).device)).cpu()
    return phone_nll(logits, y).mean().item(), hamming(logits.argmax(-1), [[until_end(row)] for row in y.tolist()])


def _rates(model: PooledReader) -> dict[str, float]:
    """Rates of all sites, those of the report's own dropout among them."""
    per_step = {f"per_step.{i}": site.p for i, site in enumerate(model.per_step) if isinstance(site, PerStepDropout)}
    return per_step | {name: float(p) for name, p in dropout_rates(model).items()}
