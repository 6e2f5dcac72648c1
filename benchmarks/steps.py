"""A whole training step of five networks: learned dropout against fixed dropout in the same places, and a peer.

Run with ``python benchmarks/steps.py``; writes ``docs/results/speed_steps.json``.
"""

import argparse
import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import torch
from concretedropout.pytorch import ConcreteDropout2D, ConcreteLinearDropout
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.likelihoods import LIKELIHOODS
from gumdrop.machine.threads import limited_threads
from gumdrop.networks.stacked import StackedMLP

from timing import RESULTS, interleaved, summary, write_results

SEED = 0
MODES = {"eager": False, "compiled": True}
P = 0.1
NUM_DATA = 50_000
CLASSES = 10

Batch = tuple[Tensor, Tensor]


def mlp(dropout: float, width: int = 512) -> nn.Module:
    """Three hidden layers, with dropout in front of each Linear."""
    layers: list[nn.Module] = []
    for outputs in (width, width, width, CLASSES):
        layers += [nn.Dropout(dropout), nn.Linear(width, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def small_mlp(dropout: float) -> nn.Module:
    """Two hidden layers of 50 on 13 inputs, as a small table asks for."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((13, 50), (50, 50), (50, CLASSES)):
        layers += [nn.Dropout(dropout), nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Residual(nn.Module):
    """A basic block: two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Dropout2d(dropout),
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Dropout2d(dropout),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        changes = stride > 1 or inputs != outputs
        self.shortcut = nn.Identity()
        if changes:
            self.shortcut = nn.Sequential(
                nn.Dropout2d(dropout), nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Add the two ways through the block."""
        return torch.relu(self.main(x) + self.shortcut(x))


def resnet(dropout: float, width: int = 16) -> nn.Module:
    """Eighteen layers as in ResNet-18, a quarter as wide unless told, for pictures of 32 x 32."""
    layers: list[nn.Module] = [
        nn.Dropout2d(dropout),
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    inputs = width
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [Residual(inputs, outputs, stride, dropout), Residual(outputs, outputs, 1, dropout)]
        inputs = outputs
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(inputs, CLASSES)
    )


class Recurrent(nn.Module):
    """Two layers of LSTM, 256 wide, and a head on the last step."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.first = nn.Dropout(dropout)
        self.lstm = nn.LSTM(256, 256, num_layers=2, batch_first=True, dropout=dropout)
        self.last = nn.Dropout(dropout)
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Read a batch of sequences."""
        return self.head(self.last(self.lstm(self.first(x))[0][:, -1]))


class Encoder(nn.Module):
    """Six layers of a transformer encoder with heads of 64, and a head on the mean over positions."""

    def __init__(self, dropout: float, width: int = 256) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.last = nn.Dropout(dropout)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Read a batch of sequences."""
        return self.head(self.last(self.encoder(x).mean(1)))


NETWORKS: dict[str, tuple[Callable[[float], nn.Module], tuple[int, ...]]] = {
    "MLP 3 x 512": (mlp, (128, 512)),
    "ResNet-18, a quarter as wide": (resnet, (32, 3, 32, 32)),
    "LSTM 2 x 256": (Recurrent, (32, 64, 256)),
    "transformer encoder, 6 layers": (Encoder, (16, 64, 256)),
    "MLP 2 x 50": (small_mlp, (32, 13)),
}


class PeerLayer(nn.Module):
    """A layer behind the peer's site, which changes its input in place and so gets a copy."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        kind = ConcreteDropout2D if isinstance(layer, nn.Conv2d) else ConcreteLinearDropout
        self.layer = layer
        self.site = kind(
            weight_regularizer=1 / NUM_DATA, dropout_regularizer=2 / NUM_DATA, init_min=P, init_max=P, temperature=0.1
        )

    def forward(self, x: Tensor) -> Tensor:
        """Drop and apply the layer."""
        return self.site(x.clone(), self.layer)


def with_peer(model: nn.Module) -> nn.Module:
    """Put the peer's sites in front of all Linear and Conv2d layers that are called as modules."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (nn.Linear, nn.Conv2d)) and not isinstance(parent, (PeerLayer, nn.MultiheadAttention)):
                setattr(parent, name, PeerLayer(child))
    return model


def step_of(
    model: nn.Module,
    batch: Batch,
    kl_of: Callable[[nn.Module], Tensor] | None,
    *,
    compiled: bool,
    autocast: torch.dtype | None = None,
) -> Callable:
    """One step of training: loss, gradients, and the optimiser."""
    x, y = batch
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(x.device.type, autocast, enabled=autocast is not None):
            nll = nn.functional.cross_entropy(model(x), y)
        return nll if kl_of is None else nll + kl_of(model)

    called = torch.compile(loss_of) if compiled else loss_of

    def step() -> None:
        optimizer.zero_grad()
        called(x, y).backward()
        optimizer.step()

    return step


def stacked_step(models: list[nn.Module], x: Tensor, y: Tensor, likelihood: str) -> Callable[[], None]:
    """One step of several small networks as `gumdrop.training.fit_stacked` takes it."""
    stacked = StackedMLP(models)
    optimizer = torch.optim.AdamW(stacked.groups(0.0, 1e-4), lr=1e-4, fused=True)
    precisions = torch.tensor([[float(units) for units in stacked.units]])
    num_data = torch.full((len(models),), float(NUM_DATA))

    def slope(output: Tensor) -> tuple[Tensor, Tensor]:
        nll, g = LIKELIHOODS[likelihood].slope(output.flatten(0, 1), y.flatten(0, 1))
        return nll.view(len(y), -1).mean(1), g.view_as(output) / y.shape[1]

    def run() -> None:
        stacked.learn(x, slope, precisions, num_data)
        optimizer.step()

    return run


def gumdrop_kl(model: nn.Module) -> Tensor:
    """KL per datum."""
    return gd.kl_divergence(model, lengthscale="fan_in") / NUM_DATA


def peer_kl(model: nn.Module) -> Tensor:
    """What the peer adds to the loss."""
    return sum(each.site.regularization for each in model.modules() if isinstance(each, PeerLayer))


def contestants(name: str, *, on_input: bool = True) -> dict[str, tuple[nn.Module, Callable | None]]:
    """The same network without dropout, with fixed dropout, with ours, and with the peer's."""
    make, _ = NETWORKS[name]
    torch.manual_seed(SEED)
    plain, fixed = make(0.0), make(P)
    if on_input:
        learned = gd.learn_dropout(copy.deepcopy(plain), p=P)
    else:  # of a chain of layers, in which the first dropout and the first layer are the first two
        fixed[0] = nn.Identity()  # type: ignore[index]
        learned = gd.learn_dropout(copy.deepcopy(plain), p=P, exclude=["1"])
    rivals: dict[str, Any] = {"no dropout": (plain, None), "fixed": (fixed, None), "gumdrop": (learned, gumdrop_kl)}
    if isinstance(plain, nn.Sequential) and on_input:
        rivals["concretedropout"] = (with_peer(copy.deepcopy(plain)), peer_kl)
    return rivals


def batch_of(shape: tuple[int, ...]) -> Batch:
    """Random inputs and classes."""
    torch.manual_seed(SEED)
    return torch.randn(shape), torch.randint(CLASSES, shape[:1])


def measure(name: str, *, on_input: bool, compiled: bool, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Rows of results for one network."""
    batch = batch_of(NETWORKS[name][1])
    rivals = contestants(name, on_input=on_input)
    rivals["gumdrop without KL"] = (copy.deepcopy(rivals["gumdrop"][0]), None)
    with limited_threads(threads):
        torch._dynamo.reset()
        steps = {
            rival: step_of(model, batch, kl_of, compiled=compiled)
            for rival, (model, kl_of) in rivals.items()
            if not (compiled and rival == "concretedropout")  # it keeps a graph in an attribute
        }
        times = summary(interleaved(steps, rounds=rounds, seed=SEED), "fixed")
    case = {"network": name, "on_input": on_input, "compiled": compiled, "threads": threads}
    return [case | {"what": rival} | each for rival, each in times.items()]


def main() -> None:
    """Measure all cases and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--modes", choices=MODES, nargs="*", default=list(MODES), help="keeps the rows of the others")
    parser.add_argument("--networks", choices=NETWORKS, nargs="*", default=list(NETWORKS), help="likewise")
    options = parser.parse_args()
    modes = [MODES[name] for name in options.modes]
    place = RESULTS / "speed_steps.json"
    before = json.loads(place.read_text(encoding="utf-8"))["results"] if place.exists() else []
    rows: list[dict[str, Any]] = [
        row for row in before if row["compiled"] not in modes or row["network"] not in options.networks
    ]
    cases = [(name, True) for name in options.networks]
    cases += [(name, False) for name in list(NETWORKS)[:2] if name in options.networks]
    for compiled, threads, (name, on_input) in itertools.product(modes, options.threads, cases):
        new = measure(name, on_input=on_input, compiled=compiled, threads=threads, rounds=options.rounds)
        for row in new:
            print(row, flush=True)
        rows += new
        rows.sort(key=lambda row: (row["compiled"], not row["on_input"], list(NETWORKS).index(row["network"])))
        write_results(
            "speed_steps", command="python benchmarks/steps.py", seed=SEED, results=rows, rounds=options.rounds
        )


if __name__ == "__main__":
    main()
