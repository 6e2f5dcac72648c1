"""Small convolutional classifiers, trained on the spot, for experiments that need a model to look into."""

import itertools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.machine.files import replacing
from gumdrop_experiments.data.mnist import read_mnist
from gumdrop_experiments.harness import Run
from gumdrop_experiments.shared import save_weights, seeded, take_step

Batches = Callable[[torch.Generator], tuple[Tensor, Tensor]]
CLASSIFIER_STEPS, QUICK_CLASSIFIER_STEPS = 900, 200


def digit_network(*, channel_rate: float = 0.0, unit_rate: float = 0.0) -> nn.Sequential:
    """Build a network for 28 x 28 digits: two convolutions and two dense layers, 107,000 weights; 0 is no dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        *_dropout(nn.Dropout2d, channel_rate),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        *_dropout(nn.Dropout, unit_rate),
        nn.Linear(64, 10),
    )


def perceptron(*sizes: int, outputs: int = 1, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Build a dense network, from the number of inputs and those of hidden units, without dropout."""
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), activation())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def digit_perceptron() -> nn.Sequential:
    """Build a network for 28 x 28 digits of dense layers alone, 3 x 512 units."""
    return nn.Sequential(nn.Flatten(), *perceptron(784, 512, 512, 512, outputs=10))


def tutorial_perceptron(*, input_rate: float = 0.0, hidden_rate: float = 0.0) -> nn.Sequential:
    """Build the dense network of Xu, Zhao & Zhao's tutorial on dropout: 2 x 800 units with tanh.

    Dropped are pixels and the units of the first hidden layer, those of the second never; 0 is no dropout.

    References:
        https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after, rate in ((784, 800, input_rate), (800, 800, hidden_rate)):
        layers += [*_dropout(nn.Dropout, rate), nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(800, 10))


def tutorial_lenet(*, rate: float = 0.0) -> nn.Sequential:
    """Build LeNet as in Xu, Zhao & Zhao's tutorial on dropout: nothing but a maximum behind each convolution.

    Dropped are whole channels of each convolution, and of the 500 dense units; 0 is no dropout. Channels are dropped
    behind the maximum, where they are a quarter as large, and not before it as in the tutorial: it is the same function
    of the same mask.

    References:
        https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch
    """
    return _lenet((20, 50), 500, rate=rate)


def labelling_network(*, rate: float = 0.0) -> nn.Sequential:
    """Build the network of Kirsch, van Amersfoort & Gal 2019 for choosing labels (arXiv:1906.08158).

    Dropped are whole channels of both convolutions, and of the 128 dense units; 0 is no dropout. Channels are dropped
    behind the maximum, which is the same function of the same mask.
    """
    return _lenet((32, 64), 128, rate=rate, relu=True, padding=0)


def _lenet(
    channels: tuple[int, int], units: int, *, rate: float = 0.0, relu: bool = False, padding: int = 2
) -> nn.Sequential:
    """Build two convolutions of 5 x 5, each with a maximum behind it, and two dense layers; channels last is fast."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((1, *channels)):
        layers += [nn.Conv2d(before, after, 5, padding=padding), nn.MaxPool2d(2)]
        layers += [*([nn.ReLU()] if relu else []), *_dropout(nn.Dropout2d, rate)]
    side = 7 if padding else 4
    dense = [nn.Linear(channels[1] * side**2, units), nn.ReLU(), *_dropout(nn.Dropout, rate), nn.Linear(units, 10)]
    model = nn.Sequential(*layers, nn.Flatten(), *dense)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # lacks in its stubs


def _dropout(kind: type[nn.Module], rate: float) -> list[nn.Module]:
    return [kind(rate)] if rate else []


def digit_batches(folder: Path) -> Batches:
    """Draw 128 training images of MNIST at a time."""
    train = read_mnist(folder)

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(train.images), (128,), generator=generator)
        return train.images[rows], train.labels[rows]

    return draw


def photograph_network(num_classes: int) -> nn.Sequential:
    """Build a network for colour pictures of any size: four convolutions and an average over all places."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes))


def photograph_batches(pictures: Tensor, *, size: int, batch_size: int) -> Batches:
    """Draw crops of pictures, of random place, scale, side and brightness, with the picture as the class."""
    count, _, height, width = pictures.shape

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(count, (batch_size,), generator=generator)
        u = torch.rand(5, batch_size, generator=generator)
        zoom = (0.4 + 0.6 * u[0]) * min(height, width) / torch.tensor([[width], [height]])
        shift = (2 * u[1:3] - 1) * (1 - zoom)
        mirror = torch.where(u[3] < 0.5, -1.0, 1.0)
        affine = torch.zeros(batch_size, 2, 3)
        affine[:, 0, 0], affine[:, 1, 1], affine[:, :, 2] = zoom[0] * mirror, zoom[1], shift.T
        grid = F.affine_grid(affine, [batch_size, 3, size, size], align_corners=False)
        crops = F.grid_sample(pictures[labels], grid, align_corners=False, padding_mode="reflection")
        return crops * (0.6 + 0.8 * u[4])[:, None, None, None], labels

    return draw


def train_or_load(
    build: Callable[[], nn.Sequential], batches: Callable[[], Batches], path: Path, *, steps: int, seed: int
) -> nn.Sequential:
    """Train a classifier by AdamW with a one-cycle learning rate, or load it where it was trained before."""
    with seeded(seed):
        model = build()
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.eval()
    generator, draw = torch.Generator().manual_seed(seed), batches()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(steps):
        x, y = draw(generator)
        take_step(optimizer, F.cross_entropy(model(x), y), schedule)
    save_weights(model, path)
    return model.eval()


def digit_classifier(
    build: Callable[[], nn.Sequential], run: Run, mnist: Path, *, steps: int | None = None
) -> nn.Sequential:
    """Train a classifier of digits, or read its weights in the folder of the run."""
    path = run.folder / f"{build.__name__}.pt"
    steps = steps or (QUICK_CLASSIFIER_STEPS if run.options.quick else CLASSIFIER_STEPS)
    return train_or_load(build, lambda: digit_batches(mnist), path, steps=steps, seed=run.options.seed)


def export(model: nn.Module, path: Path, *, shape: tuple[int, int, int]) -> None:
    """Write a classifier, in eval mode, as a file that `gumdrop explain-image` takes."""
    any_number = ({0: torch.export.Dim("n")},)
    program = torch.export.export(model, (torch.zeros(2, *shape),), dynamic_shapes=any_number)
    with replacing(path, "wb") as file:
        torch.export.save(program, file)
