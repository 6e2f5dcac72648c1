"""Dropout as a regulariser: test errors of five networks over training, and of twins that learn their rates.

The five are those of a tutorial: a perceptron of 2 x 800 tanh units with three settings of dropout, and LeNet with and
without. The twins start from the networks without dropout. All take plain stochastic gradient descent with batches of
128 and a constant learning rate, as the tutorial does.

References:
    Xu, Zhao & Zhao 2018, "Tutorial: Dropout as Regularization and Bayesian Approximation"
    (https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch).
    Hinton et al. 2012, "Improving neural networks by preventing co-adaptation" (arXiv:1207.0580).
    LeCun, Bottou, Bengio & Haffner 1998, "Gradient-based learning applied to document recognition" (Proc. IEEE 86).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates, learn_dropout, parameter_groups
from gumdrop.objective import negative_elbo
from gumdrop.objective.kl import Lengthscale
from gumdrop.training.epochs import epoch_seed
from gumdrop_experiments.data.mnist import MNIST, DigitImages, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import tutorial_lenet, tutorial_perceptron
from gumdrop_experiments.regularisation import figures

__all__ = ["NETWORKS"]

LR = {"perceptron": 0.1, "lenet": 0.1}
RATE_LR = 1.0
"""Of the logits: the entropy pulls a rate of some hundred units by about 1e-3, so that it moves within epochs."""
BATCH_SIZE = 128
LENGTHSCALE: Lengthscale = "classification"
START = 0.5
EPOCHS = {"perceptron": 200, "lenet": 60}
QUICK_EPOCHS, QUICK_TRAIN, QUICK_TEST = 2, 2000, 1000
MASK_STEPS = 100
"""Steps that are trained twice, with `nn.Dropout` and with a mask written by hand."""
EVALUATED_AT_ONCE = 1000


@dataclass(frozen=True)
class Network:
    """One of the networks."""

    label: str
    """What figures and tables call it."""
    family: str
    """`perceptron` or `lenet`."""
    build: Callable[[], nn.Sequential]
    """Makes it, without learned rates."""
    learned: bool = False
    """Whether it learns its rates."""


def _learned(build: Callable[[], nn.Sequential]) -> nn.Sequential:
    """Learn the rates of all layers, save a convolution over the one channel of the image, which is all there is."""
    return learn_dropout(build(), p=START)


_hidden = partial(tutorial_perceptron, hidden_rate=0.5)
_both = partial(tutorial_perceptron, input_rate=0.2, hidden_rate=0.5)
NETWORKS = {
    "perceptron-none": Network("2 x 800, no dropout", "perceptron", tutorial_perceptron),
    "perceptron-both": Network("2 x 800, .2 / .5", "perceptron", _both),
    "perceptron-learned": Network("2 x 800, learned", "perceptron", partial(_learned, tutorial_perceptron), True),
    "perceptron-hidden": Network("2 x 800, 0 / .5", "perceptron", _hidden),
    "lenet-none": Network("LeNet, no dropout", "lenet", tutorial_lenet),
    "lenet-half": Network("LeNet, .5", "lenet", partial(tutorial_lenet, rate=0.5)),
    "lenet-learned": Network("LeNet, learned", "lenet", partial(_learned, tutorial_lenet), True),
}
"""All of them by name, in the order in which they are trained."""


def regularisation(
    options: RunOptions = RunOptions(),
    *,
    epochs: int | None = None,
    lenet_epochs: int | None = None,
    lenet_lr: float = LR["lenet"],
) -> None:
    """Test errors over training, with fixed dropout, without, and with learned rates.

    Args:
        options: The flags that all experiments share.
        epochs: Passes over the training images for the perceptrons; 200 by default, 2 with --quick.
        lenet_epochs: The same for LeNet, which takes four times as long; 60 by default, 2 with --quick.
        lenet_lr: Learning rate of LeNet. The tutorial has .01 and 1,500 epochs.

    Raises:
        ValueError: If a number of epochs is less than 1, or the learning rate not positive.
    """
    for name, value in {"epochs": epochs, "lenet_epochs": lenet_epochs}.items():
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    if not lenet_lr > 0:
        raise ValueError(f"`lenet_lr` must be positive, got {lenet_lr}")
    folder = data_folder(options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    if options.quick:
        train, test = (
            DigitImages(each.images[:most], each.labels[:most])
            for each, most in ((train, QUICK_TRAIN), (test, QUICK_TEST))
        )
    own = {"epochs": epochs, "lenet_epochs": lenet_epochs, "lenet_lr": lenet_lr}
    with limited_threads(1), Run("regularisation", options, own) as run:
        given = {"perceptron": epochs, "lenet": lenet_epochs}
        passes = {family: given[family] or (QUICK_EPOCHS if options.quick else most) for family, most in EPOCHS.items()}
        lrs = LR | {"lenet": lenet_lr}
        masks = run.part("masks", partial(_masks, train, options.seed))
        found = {
            key: run.part(key, partial(_study, run, key, train, test, passes[network.family], lrs[network.family]))
            for key, network in NETWORKS.items()
        }
        run.figure("regularisation", figures.draw(found))
        settings = {
            "epochs": passes,
            "lr": lrs,
            "rate_lr": RATE_LR,
            "batch_size": BATCH_SIZE,
            "lengthscale": LENGTHSCALE,
            "start": START,
        }
        results = {"settings": settings, "test_images": len(test.labels), "masks": masks, "networks": found}
        run.finish(results, figures.page(found, masks, len(test.labels)))


# One network


def _study(run: Run, key: str, train: DigitImages, test: DigitImages, epochs: int, lr: float) -> dict[str, Any]:
    """Train a network, and count its errors on the test images after each epoch."""
    network, seed, device = NETWORKS[key], run.options.seed, run.options.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network.build().to(device)
    groups = parameter_groups(model, rate_lr=RATE_LR) if network.learned else [{"params": list(model.parameters())}]
    optimizer = torch.optim.SGD(groups, lr=lr)
    state = _State(run.checkpoint(key), {"model": model, "optimizer": optimizer})
    with torch.random.fork_rng():
        while len(state.epochs) < epochs:
            torch.manual_seed(epoch_seed(seed, len(state.epochs) + 1))
            total = torch.zeros((), device=device)
            for rows in torch.randperm(len(train.labels)).split(BATCH_SIZE):
                nll = _step(model.train(), optimizer, train, rows, learned=network.learned)
                total += len(rows) * nll
            errors, test_nll = _scores(model.eval(), test, device)
            rates = [round(float(p), 5) for p in dropout_rates(model).values()] if network.learned else []
            train_nll = total.item() / len(train.labels)
            state.add({"errors": errors, "test_nll": test_nll, "train_nll": train_nll, "rates": rates})
            print(
                f"{network.label}: epoch {len(state.epochs)} of {epochs}, {errors} errors, {test_nll:.4f} nats on "
                f"test images, {train_nll:.4f} in training",
                *(f"{p:.3f}" for p in rates),
                flush=True,
            )
    return {
        "label": network.label,
        "errors": [epoch["errors"] for epoch in state.epochs],
        "test_nll": [round(epoch["test_nll"], 5) for epoch in state.epochs],
        "train_nll": [round(epoch["train_nll"], 6) for epoch in state.epochs],
        "rates_over_training": [epoch["rates"] for epoch in state.epochs if epoch["rates"]],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, train: DigitImages, rows: Tensor, *, learned: bool = False
) -> Tensor:
    """Take a step; return the mean negative log likelihood of its rows under their masks."""
    device = next(model.parameters()).device
    nll = F.cross_entropy(model(train.images[rows].to(device)), train.labels[rows].to(device))
    loss = nll
    if learned:
        loss = negative_elbo(nll, model, num_data=len(train.labels), lengthscale=LENGTHSCALE).total
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return nll.detach()


def _masks(train: DigitImages, seed: int) -> dict[str, Any]:
    """Train the perceptron with both kinds of dropout twice from the same random numbers, once with masks by hand."""
    losses: dict[str, list[float]] = {}
    for name in ("nn.Dropout", "by hand"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _both()
            if name == "by hand":
                model = nn.Sequential(*(ByHand(m.p) if isinstance(m, nn.Dropout) else m for m in model))
            optimizer = torch.optim.SGD(model.parameters(), lr=LR["perceptron"])
            batches = torch.randperm(len(train.labels)).split(BATCH_SIZE)[:MASK_STEPS]
            losses[name] = [_step(model, optimizer, train, rows).item() for rows in batches]
    largest = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    return {"steps": len(batches), "largest_difference": largest, "nll": losses}


class ByHand(nn.Module):
    """Dropout as a formula: keep each number with probability 1 - p, and scale what is kept.

    Args:
        p: Drop probability.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop numbers of ``x`` in training."""
        if not self.training:
            return x
        keep = torch.empty_like(x).bernoulli_(1 - self.p)
        return x * keep / (1 - self.p)


class _State:
    """What a stopped training goes on from: tensors by name, and a record of each epoch."""

    def __init__(self, path: Path, parts: dict[str, Any]) -> None:
        self._path, self._parts = path, parts
        self.epochs: list[dict[str, Any]] = []
        if path.exists():
            saved = torch.load(path, weights_only=True)
            self.epochs = saved["epochs"]
            for name, part in parts.items():
                part.load_state_dict(saved[name])

    def add(self, epoch: dict[str, Any]) -> None:
        """Close an epoch, and write all of it."""
        self.epochs.append(epoch)
        with replacing(self._path, "wb") as file:
            torch.save({"epochs": self.epochs} | {k: part.state_dict() for k, part in self._parts.items()}, file)


@torch.no_grad()
def _scores(model: nn.Module, test: DigitImages, device: str) -> tuple[int, float]:
    """Count wrong answers with dropout off, as the tutorial does; and the mean negative log likelihood in nats."""
    parts = zip(test.images.split(EVALUATED_AT_ONCE), test.labels.split(EVALUATED_AT_ONCE), strict=True)
    logits = [(model(x.to(device)).cpu(), y) for x, y in parts]
    errors = sum(int((each.argmax(1) != y).sum()) for each, y in logits)
    nll = sum(F.cross_entropy(each, y, reduction="sum").item() for each, y in logits)
    return errors, nll / len(test.labels)
