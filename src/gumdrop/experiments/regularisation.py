"""Dropout as a regulariser: test errors of five networks over training, and of twins that learn their rates.

The five are those of a tutorial: a perceptron of 2 x 800 tanh units with three settings of dropout, and LeNet with and
without. The twins start from the networks without dropout. All take stochastic gradient descent with batches of
128. To the tutorial's constant learning rate of 0.1 come momentum and one cycle up to that rate and down to 0, so that
a run of minutes ends in a minimum too.

References:
    Hinton et al. 2012, "Improving neural networks by preventing co-adaptation" (arXiv:1207.0580).
    LeCun, Bottou, Bengio & Haffner 1998, "Gradient-based learning applied to document recognition" (Proc. IEEE 86).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure as Drawing
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop import plots
from gumdrop.atomic import replacing
from gumdrop.conversion import dropout_rates, learn_dropout, parameter_groups
from gumdrop.datasets.images import MNIST, DigitImages, read_mnist
from gumdrop.divergence import Lengthscale
from gumdrop.experiments.axes import dress
from gumdrop.experiments.classifiers import lenet, tanh_perceptron
from gumdrop.experiments.page import Figure, Page, Table
from gumdrop.experiments.run import Run, RunOptions, data_folder
from gumdrop.objective import negative_elbo
from gumdrop.threads import limited_threads
from gumdrop.training.loop import epoch_seed

__all__ = ["NETWORKS"]

LR, RATE_LR, MOMENTUM, BATCH_SIZE = 0.1, 0.1, 0.9, 128
LENGTHSCALE: Lengthscale = 1.0
START = 0.2
EPOCHS = {"perceptron": 8, "lenet": 3}
QUICK_EPOCHS, QUICK_TRAIN, QUICK_TEST = 2, 2000, 1000
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
    style: tuple[str, str] = (plots.INK, "-")
    """Colour and line."""


def _learned(build: Callable[[], nn.Sequential]) -> nn.Sequential:
    """Learn the rates of all layers, save a convolution over the one channel of the image, which is all there is."""
    return learn_dropout(build(), p=START, predicate=lambda name, layer: getattr(layer, "in_channels", 0) != 1)


NETWORKS = {
    "perceptron-none": Network("2 x 800, no dropout", "perceptron", tanh_perceptron, style=(plots.INK, ":")),
    "perceptron-hidden": Network(
        "2 x 800, 0 / .5", "perceptron", partial(tanh_perceptron, hidden_rate=0.5), style=(plots.ORANGE, "--")
    ),
    "perceptron-both": Network(
        "2 x 800, .2 / .5",
        "perceptron",
        partial(tanh_perceptron, input_rate=0.2, hidden_rate=0.5),
        style=(plots.ORANGE, "-"),
    ),
    "perceptron-learned": Network(
        "2 x 800, learned", "perceptron", partial(_learned, tanh_perceptron), True, (plots.BLUE, "-")
    ),
    "lenet-none": Network("LeNet, no dropout", "lenet", lenet, style=(plots.INK, ":")),
    "lenet-half": Network("LeNet, .5", "lenet", partial(lenet, rate=0.5), style=(plots.ORANGE, "-")),
    "lenet-learned": Network("LeNet, learned", "lenet", partial(_learned, lenet), True, (plots.BLUE, "-")),
}
"""All of them by name."""


def regularisation(
    options: RunOptions = RunOptions(), *, epochs: int | None = None, lenet_epochs: int | None = None
) -> None:
    """Test errors over training, with fixed dropout, without, and with learned rates.

    Args:
        options: The flags that all experiments share.
        epochs: Passes over the training images for the perceptrons; 8 by default, 2 with --quick.
        lenet_epochs: The same for LeNet, which takes six times as long; 3 by default, 2 with --quick.

    Raises:
        ValueError: If a number is less than 1.
    """
    for name, value in {"epochs": epochs, "lenet_epochs": lenet_epochs}.items():
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    folder = data_folder(options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    if options.quick:
        train, test = (
            DigitImages(each.images[:most], each.labels[:most])
            for each, most in ((train, QUICK_TRAIN), (test, QUICK_TEST))
        )
    own = {"epochs": epochs, "lenet_epochs": lenet_epochs}
    with limited_threads(1), Run("regularisation", options, own) as run:
        given = {"perceptron": epochs, "lenet": lenet_epochs}
        passes = {family: given[family] or (QUICK_EPOCHS if options.quick else most) for family, most in EPOCHS.items()}
        found = {
            key: run.part(key, partial(_study, run, key, train, test, passes[network.family]))
            for key, network in NETWORKS.items()
        }
        run.figure("regularisation", _draw(found))
        settings = {
            "epochs": passes,
            "lr": LR,
            "rate_lr": RATE_LR,
            "momentum": MOMENTUM,
            "batch_size": BATCH_SIZE,
            "lengthscale": LENGTHSCALE,
        }
        run.finish({"settings": settings, "test_images": len(test.labels), "networks": found}, _page(found, test))


# One network


def _study(run: Run, key: str, train: DigitImages, test: DigitImages, epochs: int) -> dict[str, Any]:
    """Train a network, and count its errors on the test images after each epoch."""
    network, seed, device = NETWORKS[key], run.options.seed, run.options.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network.build().to(device)
    groups = parameter_groups(model, rate_lr=RATE_LR) if network.learned else [{"params": list(model.parameters())}]
    optimizer = torch.optim.SGD(groups, lr=LR, momentum=MOMENTUM, nesterov=True)
    peaks = [group["lr"] for group in optimizer.param_groups]
    steps = epochs * -(-len(train.labels) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=steps, cycle_momentum=False)
    state = _State(run.checkpoint(key), {"model": model, "optimizer": optimizer, "schedule": schedule})

    def loss_of(rows: Tensor) -> Tensor:
        nll = F.cross_entropy(model(train.images[rows].to(device)), train.labels[rows].to(device))
        if not network.learned:
            return nll
        return negative_elbo(nll, model, num_data=len(train.labels), lengthscale=LENGTHSCALE).total

    with torch.random.fork_rng():
        while len(state.epochs) < epochs:
            torch.manual_seed(epoch_seed(seed, len(state.epochs) + 1))
            model.train()
            for rows in torch.randperm(len(train.labels)).split(BATCH_SIZE):
                loss = loss_of(rows)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            errors = _errors(model.eval(), test, device)
            rates = list(dropout_rates(model).values()) if network.learned else []
            state.add({"loss": loss.item(), "errors": errors, "rates": rates})
            print(f"{network.label}: epoch {len(state.epochs)} of {epochs}, {errors} errors")
    return {
        "label": network.label,
        "errors": [epoch["errors"] for epoch in state.epochs],
        "rates_over_training": [epoch["rates"] for epoch in state.epochs],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


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
def _errors(model: nn.Module, test: DigitImages, device: str) -> int:
    """Count wrong answers with dropout off, as the tutorial does."""
    parts = zip(test.images.split(EVALUATED_AT_ONCE), test.labels.split(EVALUATED_AT_ONCE), strict=True)
    return sum(int((model(x.to(device)).argmax(1).cpu() != y).sum()) for x, y in parts)


# Figure and page


def _draw(found: dict[str, Any]) -> Drawing:
    """Errors over epochs, a panel for each family, all networks in one figure."""
    drawing = Drawing(figsize=(9, 4.2), layout="constrained")
    panels = drawing.subplots(1, 2)
    families = {"perceptron": "dense, 2 x 800 tanh", "lenet": "LeNet"}
    for ax, (family, title) in zip(panels, families.items(), strict=True):
        for key, network in NETWORKS.items():
            if network.family == family:
                errors = found[key]["errors"]
                colour, style = network.style
                label = f"{network.label.split(', ')[1]}: {errors[-1]}"
                epochs = range(1, len(errors) + 1)
                ax.plot(epochs, errors, style, color=colour, label=label, marker="o", markersize=3)
        ax.margins(y=0.12)
        ax.set_yscale("log")
        ticks = _ticks(*ax.get_ylim())
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        longest = max(len(found[key]["errors"]) for key in NETWORKS if NETWORKS[key].family == family)
        ax.set_xlim(0.6, longest + 0.4)
        ax.set_xticks(range(1, longest + 1, 1 + longest // 10))
        dress(ax, title=title, x="epoch", y="wrong test images")
        ax.legend(frameon=False, title="dropout: errors at the end", fontsize=9, title_fontsize=9, loc="upper right")
    return drawing


def _ticks(low: float, high: float) -> list[int]:
    steps = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
    return [tick for power in range(4) for step in steps if low <= (tick := step * 10**power) <= high]


def _page(found: dict[str, Any], test: DigitImages) -> Page:
    last = {key: part["errors"][-1] for key, part in found.items()}
    best = {
        family: min(
            (key for key, each in NETWORKS.items() if each.family == family and not each.learned),
            key=lambda key: last[key],
        )
        for family in EPOCHS
    }
    rows = [
        [
            NETWORKS[key].label,
            f"{part['errors'][-1]}",
            f"{min(part['errors'])}",
            f"{len(part['errors'])}",
            ", ".join(f"{p:.3f}" for p in part["rates_over_training"][-1]) or "–",
        ]
        for key, part in found.items()
    ]
    ours = [i for i, key in enumerate(found) if NETWORKS[key].learned]
    caption = f"Wrong answers among {len(test.labels):,} test images, dropout off, and the rates that were learned."
    return Page(
        title="Dropout as a regulariser",
        lead=(
            f"The dense network that learns its rates errs {last['perceptron-learned']} times among "
            f"{len(test.labels):,} test images, the best with fixed rates ({NETWORKS[best['perceptron']].label}) "
            f"{last[best['perceptron']]} times; LeNet {last['lenet-learned']} times with learned rates, "
            f"{last[best['lenet']]} times as {NETWORKS[best['lenet']].label}."
        ),
        body=[
            Figure("regularisation", FIGURE),
            Table(
                caption, ["network", "at the end", "fewest", "epochs", "learned p, from input to output"], rows, ours
            ),
        ],
        notes=NOTES,
    )


FIGURE = (
    "Wrong test images after each epoch, on a logarithmic scale. Good is a learned twin that ends at or below the best "
    "fixed setting."
)
NOTES = (
    "Published: 160 errors without dropout, 130 with half of the hidden units dropped, 110 with a fifth of the inputs "
    "dropped as well (Hinton et al. 2012, from memory), after thousands of epochs.",
    "Test images are only counted, never chosen on. LeNet's dropout takes whole channels behind each convolution, and "
    "single units behind the dense layer; its learned twin does the same before the second convolution and the dense "
    "layers. The order of batches and the start of the weights are the same for all.",
)
