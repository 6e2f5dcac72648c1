"""Test errors over training: networks of the tutorial and twins that learn their rates, by plain gradient descent."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop import dropout_rates, learn_dropout, parameter_groups
from gumdrop.networks import set_strength
from gumdrop_experiments.data.mnist import DigitImages, read_digits
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.networks.convolutional import tutorial_lenet, tutorial_perceptron
from gumdrop_experiments.regularisation import Settings
from gumdrop_experiments.shared import LENGTHSCALE, run_epochs, seeded, step_on_digits

START = 0.5
"""Where learned rates begin."""
LAST = 10
"""Epochs at the end whose scores are averaged; those of single epochs jump."""
PERCEPTRON_LR = 0.1
RATE_LR = 1.0
"""Of the logits: the entropy pulls a rate of some hundred units by about 1e-3, so that it moves within epochs."""
BATCH_SIZE = 128
MASK_STEPS = 100
"""Steps that are trained twice, with `nn.Dropout` and with a mask written by hand."""
EVALUATED_AT_ONCE = 1000
EPOCHS = {"perceptron": 200, "lenet": 60}
STRENGTHS = (1.0, 4.0, 16.0, 64.0)
"""Held-out images choose among them."""
HELD_OUT, CHOOSING = 6, 0.3
"""One in so many training images is held out for that, and the share of the epochs that the choice takes."""
QUICK_EPOCHS, QUICK_TRAIN, QUICK_TEST = 2, 2000, 1000


Plan = Mapping[str, tuple[int, float]]
"""Epochs and learning rate of each family."""


class Network(NamedTuple):
    """One of the networks."""

    label: str
    family: str
    """`perceptron` or `lenet`."""
    build: Callable[[], nn.Sequential]
    learned: bool = False
    tuned: bool = False
    """Whether held-out images choose the strength of its dropout, as a grid would choose fixed rates."""


class Digits(NamedTuple):
    """What networks are trained on, and what their errors are counted on."""

    train: DigitImages
    test: DigitImages


class _ByHand(nn.Module):
    """Dropout as a formula: keep each number with probability 1 - p, and scale what is kept."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop numbers of ``x`` in training."""
        return x * torch.empty_like(x).bernoulli_(1 - self.p) / (1 - self.p) if self.training else x


def trained(
    run: Run,
    name: str,
    key: str,
    digits: Digits,
    plan: Plan,
    strength: float = 1.0,
    *,
    adam: bool = False,
    keep: bool = False,
) -> Plain:
    """Train a network by plain gradient descent or Adam, and count its errors on the test images after each epoch."""
    network, options = NETWORKS[key], run.options
    epochs, lr = plan[network.family]
    with seeded(options.seed):
        model = network.build().to(options.device)
    groups: list[Plain] = [{"params": list(model.parameters())}]
    if network.learned:
        groups = parameter_groups(set_strength(model, strength), rate_lr=lr if adam else RATE_LR)
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(groups, lr=lr)
    epoch, say = partial(_epoch, network, model, optimizer, digits), partial(_say, network, epochs)
    checkpoint = run.checkpoint(name, keep=keep)
    done = run_epochs(checkpoint, model, optimizer, epochs, seed=options.seed, run=epoch, say=say)
    return {
        "label": network.label,
        "errors": [epoch["errors"] for epoch in done],
        "test_nll": [round(epoch["test_nll"], 5) for epoch in done],
        "train_nll": [round(epoch["train_nll"], 6) for epoch in done],
        "rates_over_training": [epoch["rates"] for epoch in done if epoch["rates"]],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _epoch(network: Network, model: nn.Module, optimizer: torch.optim.Optimizer, digits: Digits) -> Plain:
    """Pass once over the training images, then look at the test images; fixed rates are not told."""
    images = digits.train
    device = next(model.parameters()).device
    total = torch.zeros((), device=device)
    for rows in torch.randperm(len(images.labels)).split(BATCH_SIZE):
        total += len(rows) * step_on_digits(model.train(), optimizer, images, rows, learned=network.learned)
    errors, test_nll = _scores(model.eval(), digits.test, device)
    rates = [round(float(p), 5) for p in dropout_rates(model).values()] if network.learned else []
    return {"errors": errors, "test_nll": test_nll, "train_nll": total.item() / len(images.labels), "rates": rates}


@torch.no_grad()
def _scores(model: nn.Module, test: DigitImages, device: torch.device) -> tuple[int, float]:
    """Count wrong answers with dropout off, as the tutorial does; and the mean negative log likelihood in nats."""
    parts = zip(test.images.split(EVALUATED_AT_ONCE), test.labels.split(EVALUATED_AT_ONCE), strict=True)
    logits = [(model(x.to(device)).cpu(), y) for x, y in parts]
    errors = sum(int((each.argmax(1) != y).sum()) for each, y in logits)
    nll = sum(F.cross_entropy(each, y, reduction="sum").item() for each, y in logits)
    return errors, nll / len(test.labels)


def _say(network: Network, epochs: int, done: list[Plain]) -> None:
    last = done[-1]
    said = f"{last['errors']} errors, {last['test_nll']:.4f} nats on unseen images, {last['train_nll']:.4f} in training"
    rates = (f"{p:.3f}" for p in last["rates"])
    print(f"{network.label}: epoch {len(done)} of {epochs}, {said}", *rates, flush=True)


def compare_masks(train: DigitImages, seed: int) -> Plain:
    """Train the perceptron with both kinds of dropout twice from the same random numbers, once with masks by hand."""
    losses: dict[str, list[float]] = {}
    for name in ("nn.Dropout", "by hand"):
        with seeded(seed):
            model = NETWORKS["perceptron-both"].build()
            if name == "by hand":
                model = nn.Sequential(*(_ByHand(m.p) if isinstance(m, nn.Dropout) else m for m in model))
            optimizer = torch.optim.SGD(model.parameters(), lr=PERCEPTRON_LR)
            batches = torch.randperm(len(train.labels)).split(BATCH_SIZE)[:MASK_STEPS]
            losses[name] = [step_on_digits(model, optimizer, train, rows).item() for rows in batches]
    largest = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    return {"steps": len(batches), "largest_difference": largest, "nll": losses}


def _learned(build: Callable[[], nn.Sequential]) -> nn.Sequential:
    """Learn the rates of all layers, save a convolution over the one channel of the image, which is all there is."""
    return learn_dropout(build(), p=START)


_PERCEPTRON, _LENET = partial(_learned, tutorial_perceptron), partial(_learned, tutorial_lenet)
_BOTH = partial(tutorial_perceptron, input_rate=0.2, hidden_rate=0.5)
NETWORKS = {
    "perceptron-none": Network("2 x 800, no dropout", "perceptron", tutorial_perceptron),
    "perceptron-both": Network("2 x 800, .2 / .5", "perceptron", _BOTH),
    "perceptron-learned": Network("2 x 800, learned", "perceptron", _PERCEPTRON, True),
    "perceptron-strength": Network("2 x 800, learned, held-out strength", "perceptron", _PERCEPTRON, True, tuned=True),
    "perceptron-hidden": Network("2 x 800, 0 / .5", "perceptron", partial(tutorial_perceptron, hidden_rate=0.5)),
    "lenet-none": Network("LeNet, no dropout", "lenet", tutorial_lenet),
    "lenet-half": Network("LeNet, .5", "lenet", partial(tutorial_lenet, rate=0.5)),
    "lenet-learned": Network("LeNet, learned", "lenet", _LENET, True),
    "lenet-strength": Network("LeNet, learned, held-out strength", "lenet", _LENET, True, tuned=True),
}
"""All of them by name, in the order in which they are trained."""


def at_the_end(scores: Sequence[float]) -> float:
    """Average a score over the last epochs."""
    return statistics.fmean(scores[-LAST:])


def study(settings: Settings, run: Run) -> Plain:
    """Train the networks, each in a part."""
    chosen = [key for key in NETWORKS if key in (settings.networks or NETWORKS)]
    digits, held_out = digits_of(run)
    plan = plan_of(settings, run)
    shorter = {family: (math.ceil(CHOOSING * whole), lr) for family, (whole, lr) in plan.items()}
    tuned = [key for key in chosen if NETWORKS[key].tuned]
    tries = {f"{key}-{strength:g}": (key, strength) for key in tuned for strength in STRENGTHS}
    calls = {"masks": partial(compare_masks, digits.train, run.options.seed)}
    calls |= {key: partial(trained, run, key, key, digits, plan) for key in chosen if key not in tuned}
    calls |= {name: partial(trained, run, name, key, held_out, shorter, s) for name, (key, s) in tries.items()}
    networks = run.parts(calls)
    scores = {key: {f"{s:g}": at_the_end(networks[f"{key}-{s:g}"]["test_nll"]) for s in STRENGTHS} for key in tuned}
    best = {key: float(min(of_key, key=of_key.__getitem__)) for key, of_key in scores.items()}
    networks |= run.parts({key: partial(trained, run, key, key, digits, plan, best[key]) for key in tuned})
    for key in tuned:
        networks[key] |= {"strength": best[key], "held_out_nll": scores[key]}
    return {
        "settings": {
            "epochs": {family: epochs for family, (epochs, _) in plan.items()},
            "lr": {family: lr for family, (_, lr) in plan.items()},
            "rate_lr": RATE_LR,
            "batch_size": BATCH_SIZE,
            "lengthscale": LENGTHSCALE,
            "start": START,
        },
        "test_images": len(digits.test.labels),
        "masks": networks["masks"],
        "networks": {key: networks[key] for key in chosen},
    }


def plan_of(settings: Settings, run: Run) -> Plan:
    """Take the epochs that were given for each family, or the usual ones, and its learning rate."""
    usual = dict.fromkeys(EPOCHS, QUICK_EPOCHS) if run.options.quick else EPOCHS
    return {
        "perceptron": (settings.epochs or usual["perceptron"], PERCEPTRON_LR),
        "lenet": (settings.lenet_epochs or usual["lenet"], settings.lenet_lr),
    }


def digits_of(run: Run) -> tuple[Digits, Digits]:
    """Read the images; and the training images alone, of which the last stand in for the test images."""
    train, test = read_digits(run.options)
    if run.options.quick:
        train, test = train.rows(slice(QUICK_TRAIN)), test.rows(slice(QUICK_TEST))
    count = len(train.labels) - len(train.labels) // HELD_OUT
    return Digits(train, test), Digits(train.rows(slice(count)), train.rows(slice(count, None)))
