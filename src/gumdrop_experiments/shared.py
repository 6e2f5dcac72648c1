"""What studies share: random numbers, steps, a state of a training to go on from, and scores of what is predicted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop import negative_elbo
from gumdrop.likelihoods import ClassificationPrediction, Lengthscale, RegressionPrediction
from gumdrop.machine.files import replacing
from gumdrop.metrics import accuracy, brier_score, calibration_error, interval_coverage, rmse
from gumdrop.training import FitResult, epoch_seed
from gumdrop_experiments.data.mnist import DigitImages

LENGTHSCALE: Lengthscale = "classification"


def shuffled(count: int, seed: int) -> Tensor:
    """So many numbers from 0 on, in the random order of a seed."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from a seed; what there was before comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def take_step(
    optimizer: torch.optim.Optimizer, loss: Tensor, schedule: torch.optim.lr_scheduler.LRScheduler | None = None
) -> None:
    """Take a step, and one of the schedule of the learning rate, if there is one."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if schedule is not None:
        schedule.step()


def step_on_digits(
    model: nn.Module, optimizer: torch.optim.Optimizer, train: DigitImages, rows: Tensor, *, learned: bool = False
) -> Tensor:
    """Take a step, by the negative ELBO where rates are learned; return the mean NLL of its rows under their masks."""
    device = next(model.parameters()).device
    nll = F.cross_entropy(model(train.images[rows].to(device)), train.labels[rows].to(device))
    elbo = negative_elbo(nll, model, num_data=len(train.labels), lengthscale=LENGTHSCALE) if learned else None
    take_step(optimizer, nll if elbo is None else elbo.total)
    return nll.detach()


def run_epochs(
    checkpoint: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    *,
    seed: int,
    run: Callable[[], Any],
    say: Callable[[list[Any]], None],
) -> list[Any]:
    """Run epochs, each with random numbers of its own, from a checkpoint where there is one; list what each gave."""
    history = restore(checkpoint, model, optimizer)
    with torch.random.fork_rng():
        while len(history) < epochs:
            torch.manual_seed(epoch_seed(seed, len(history) + 1))
            history.append(run())
            save(checkpoint, model, optimizer, history)
            say(history)
    return history


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    """Take over what a training that was stopped has saved."""
    if not checkpoint.exists():
        return []
    saved = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return list(saved["done"])


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights of a network, whole or not at all."""
    with replacing(path, "wb") as file:
        torch.save(model.state_dict(), file)


def rates_over(result: FitResult) -> dict[str, list[float]]:
    """List the rate of each site after each epoch of a training."""
    return {name: [record.rates[name] for record in result.history] for name in result.history[0].rates}


def save(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, history: list[Any]) -> None:
    """Write the state of a training, whole or not at all."""
    with replacing(checkpoint, "wb") as file:
        torch.save({"done": history, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)


def plain_prediction(model: nn.Module, x: Tensor, *, batch_size: int | None = None) -> ClassificationPrediction:
    """Predict with dropout off, as one function."""
    with torch.no_grad():
        log_p = [torch.log_softmax(model(part), dim=1) for part in x.split(batch_size or len(x))]
    return ClassificationPrediction.from_log_probabilities(torch.cat(log_p))


def class_scores(prediction: ClassificationPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted classes by accuracy, NLL in nats per row, expected calibration error and Brier score."""
    return {
        "accuracy": accuracy(prediction.label, target).item(),
        "nll": -prediction.log_prob(target).mean().item(),
        "ece": calibration_error(prediction, target).item(),
        "brier": brier_score(prediction, target).item(),
    }


def number_scores(prediction: RegressionPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted numbers by NLL in nats per row, RMSE, and the share of targets in 90 % intervals."""
    return {
        "nll": -prediction.log_prob(target).mean().item(),
        "rmse": rmse(prediction.mean, target).item(),
        "coverage": interval_coverage(*prediction.interval(0.9), target).item(),
    }


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Area under the receiver's curve: how often an unknown row is more uncertain than a known one."""
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    return float(roc_auc_score(truth, torch.cat([known, unknown]).numpy()))
