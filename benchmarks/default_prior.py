"""Does any model break on the default prior? Accuracy and nats beside no dropout and the fan-in prior, loop for loop.

Each part trains one network by the loop of the README, without dropout and converted with each prior, and scores it on
rows that it has not seen. Nothing is held out, stopped or tuned. Run with ``make benchmark-prior DATA=DIR``, which goes
on where it was stopped; writes ``docs/results/prior.json`` and ``.png`` and fills the table of ``docs/method.md``.
Without data, the parts that need no files.
"""

import argparse
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn import datasets
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

import gumdrop as gd
from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop.objective.kl import CAPS
from gumdrop_experiments.data.mnist import read_mnist
from gumdrop_experiments.data.texts import Vocabulary, read_sst
from gumdrop_experiments.data.uci import read_rows

import performance_page
from timing import RESULTS

ARMS: dict[str, Any] = {"no dropout": None, "default": {}, "fan_in": {"lengthscale": "fan_in"}}
BATCH_SIZE = 32
NUM_SAMPLES = 30

Rows = tuple[Tensor, Tensor]


class Part(NamedTuple):
    """A network, what it is trained on and what it is tried on."""

    network: Callable[[], nn.Module]
    rows: Callable[[Path, int], tuple[Rows, Rows]]
    """Training and test rows, from the folder of the data and a seed."""
    epochs: tuple[int, ...]
    """When it is scored; the last ends the training."""
    seeds: int = 3
    lr: float = 5e-3


def mlp(*sizes: int) -> nn.Sequential:
    """Linear layers of PyTorch, with ReLU between them."""
    layers = [layer for pair in itertools.pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def flat(*sizes: int) -> nn.Sequential:
    """The same on pictures."""
    return nn.Sequential(nn.Flatten(), *mlp(*sizes))


def cnn() -> nn.Sequential:
    """Two convolutions and two dense layers, for the digits of 8 x 8."""
    first = [nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *first, nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), *mlp(256, 64, 10)
    )


class Residual(nn.Module):
    """A basic block: two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add the two ways through the block."""
        return torch.relu(self.main(x) + self.shortcut(x))


def resnet() -> nn.Sequential:
    """Eight layers with batch normalisation, for pictures of 28 x 28."""
    blocks = [Residual(8, 16, 2), Residual(16, 32, 2), Residual(32, 64, 2)]
    stem = [nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(nn.Unflatten(1, (1, 28)), *stem, *blocks, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))


class Lstm(nn.Module):
    """The last hidden state of an LSTM over word vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(5000, 64), nn.LSTM(64, 64, batch_first=True), nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of both classes."""
        return self.head(self.lstm(self.words(x))[0].amax(1))


class Bert(nn.Module):
    """A BERT of two layers from its configuration, without weights of its own and without plain dropout."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"vocab_size": 5000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes |= {"intermediate_size": 256, "num_labels": 2}
        config = BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        self.bert = BertForSequenceClassification(config)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of both classes."""
        return self.bert(input_ids=x, attention_mask=(x > 0).long()).logits


def digits(_: Path, seed: int, *, size: int) -> tuple[Rows, Rows]:
    """The digits of scikit-learn, as rows of 8 x 8 values in [0, 1]; tested on 597."""
    x, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    inputs, targets = torch.tensor(x[order] / 16, dtype=torch.float32).unflatten(1, (8, 8)), torch.tensor(y[order])
    return (inputs[:size], targets[:size]), (inputs[1200:], targets[1200:])


def mnist(folder: Path, seed: int, *, size: int) -> tuple[Rows, Rows]:
    """Some digits of MNIST; tested on 1,000."""
    parts = []
    for train, count in ((True, size), (False, 1000)):
        images, labels = read_mnist(folder / "mnist", train=train)
        rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count]
        parts.append((images[rows, 0], labels[rows]))
    return parts[0], parts[1]


def reviews(folder: Path, seed: int, *, size: int) -> tuple[Rows, Rows]:
    """Some sentences of SST-2 as word numbers; tested on every third one of its test part."""
    train, test = (read_sst(folder / "sst", part) for part in ("train", "test"))
    vocabulary = Vocabulary(train.words, least=2)
    rows = torch.randperm(len(train.labels), generator=torch.Generator().manual_seed(seed))[:size]
    x, tested = (vocabulary.encode(part.words)[:, :32] for part in (train, test))
    return (x[rows].clamp(max=4999), train.labels[rows]), (tested[::3].clamp(max=4999), test.labels[::3])


def table(folder: Path, seed: int, *, name: str, size: int) -> tuple[Rows, Rows]:
    """Standardised inputs and targets; ``size`` rows to train on, at most 1,000 of the others to test on."""
    if name == "friedman":
        x, y = datasets.make_friedman1(1400, noise=1.0, random_state=seed)
    elif name == "diabetes":
        x, y = datasets.load_diabetes(return_X_y=True)
    else:
        x, y = read_rows(folder / "uci" / name)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:size], order[size : size + 1000]
    values = []
    for each in (x, y.reshape(-1, 1)):
        scaled = torch.tensor((each - each[train].mean(0)) / (each[train].std(0) + 1e-9), dtype=torch.float32)
        values.append((scaled[train], scaled[test]))
    return (values[0][0], values[1][0]), (values[0][1], values[1][1])


def regression(
    name: str, size: int, inputs: int, width: int = 64, epochs: tuple[int, ...] = (30, 150)
) -> dict[str, Part]:
    """Two hidden layers for the mean and the log variance of a table."""
    rows = partial(table, name=name, size=size)
    return {f"{name}, 2 x {width}, N = {size}": Part(partial(mlp, inputs, width, width, 2), rows, epochs)}


def parts(folder: Path | None) -> dict[str, Part]:
    """All that can be run with these data."""
    dense = {size: partial(flat, size, 128, 128, 10) for size in (64, 784)}
    few, many = partial(digits, size=200), partial(digits, size=1200)
    found = {
        "digits, MLP, N = 1200": Part(dense[64], many, (20, 100), seeds=5),
        "digits, CNN, N = 1200": Part(cnn, many, (20,), seeds=5),
        "digits, MLP, N = 200": Part(dense[64], few, (40, 200), seeds=5),
        **regression("friedman", 400, 10),
    }
    if folder is not None:
        found |= {
            "SST, BERT, N = 1000": Part(Bert, partial(reviews, size=1000), (4,), lr=1e-3),
            "MNIST, ResNet, N = 1000": Part(resnet, partial(mnist, size=1000), (5,)),
            "MNIST, MLP, N = 2000": Part(dense[784], partial(mnist, size=2000), (8,)),
        }
    found |= regression("friedman", 400, 10, width=256)  # up to 16 weights a row the default is fan-in
    found |= regression("diabetes", 353, 10, width=256, epochs=(30,))
    found["digits, CNN, N = 200"] = Part(cnn, few, (40,), seeds=5)
    if folder is not None:
        found["SST, LSTM, N = 1500"] = Part(Lstm, partial(reviews, size=1500), (4,))
        found |= regression("boston-housing", 455, 13, width=256, epochs=(30,))
        found |= regression("concrete-strength", 927, 8, width=256, epochs=(30,))
    return found


def scores(model: nn.Module, x: Tensor, y: Tensor, *, learned: bool) -> dict[str, float]:
    """Nats per row, and accuracy for classes."""
    model.eval()
    with torch.no_grad():
        drawn = gd.sample(model, x, num_samples=NUM_SAMPLES, seed=0) if learned else model(x).unsqueeze(0)
    model.train()
    if y.is_floating_point():
        mean, log_variance = drawn.chunk(2, -1)
        nll = torch.stack([gd.gaussian_nll(*draw, y) for draw in zip(mean, log_variance, strict=True)])
        return {"nats": float((math.log(len(drawn)) - torch.logsumexp(-nll, 0)).mean())}
    p = drawn.softmax(-1).mean(0)
    return {"nats": float(gd.categorical_nll(p.log(), y).mean()), "accuracy": float((p.argmax(1) == y).float().mean())}


def train(part: Part, arm: str, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Train by the loop of the README; one record for each time that it is scored."""
    (x, y), test = part.rows(folder, seed)
    torch.manual_seed(seed)
    model = part.network()
    options = ARMS[arm]
    learned = options is not None
    groups: Any = gd.parameter_groups(gd.learn_dropout(model), rate_lr=5e-3) if learned else model.parameters()
    optimizer = torch.optim.AdamW(groups, lr=part.lr, weight_decay=0.0)
    for epoch in range(1, part.epochs[-1] + 1):
        for rows in torch.randperm(len(x)).split(BATCH_SIZE):
            output = model(x[rows])
            if y.is_floating_point():
                mean, log_variance = output.chunk(2, -1)
                nll = gd.gaussian_nll(mean, log_variance, y[rows])
            else:
                nll = gd.categorical_nll(output, y[rows])
            loss = gd.negative_elbo(nll, model, num_data=len(x), **options).total if learned else nll.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch in part.epochs:
            record = {"arm": arm, "seed": seed, "epochs": epoch, **scores(model, *test, learned=learned)}
            if learned:
                record["rates"] = [round(float(torch.as_tensor(p).mean()), 3) for p in gd.dropout_rates(model).values()]
            yield record


def draw(results: dict[str, list[dict[str, Any]]]) -> Figure:
    """Nats of each part and length of training, seed by seed."""
    rows = [(f"{name}, {epochs} epochs", name, epochs) for name in results for epochs in _epochs(results[name])]
    figure = Figure(figsize=(9, 0.9 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    looks = (("no dropout", "x", -0.27, "#555555"), ("fan_in", "s", 0.0, "#d55e00"), ("default", "o", 0.27, "#0072b2"))
    for arm, marker, shift, colour in looks:
        found = [
            (i + shift, record["nats"])
            for i, (_, name, epochs) in enumerate(rows)
            for record in results[name]
            if (record["arm"], record["epochs"]) == (arm, epochs)
        ]
        heights, nats = np.array(found).T
        axes.scatter(nats, heights, marker=marker, s=16, label=arm, alpha=0.6, color=colour)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xticks([])
    axes.set_xticks((-0.1, -0.05, 0, 0.05, 0.1, 0.3, 1, 3, 10), minor=False)
    axes.axvspan(-0.1, 0.1, color="#8a8f98", alpha=0.1, linewidth=0)
    axes.set_xlabel("test nats per row, each seed; less is better; linear in grey, else log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(left=min(-0.12, 1.1 * axes.dataLim.xmin))
    axes.invert_yaxis()
    axes.grid(axis="y", linewidth=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    return figure


def _epochs(records: list[dict[str, Any]]) -> list[int]:
    return sorted({record["epochs"] for record in records})


def main() -> None:
    """Run what is not in the results file yet, and write it after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds mnist, sst and uci")
    folder = parser.parse_args().data
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "the prior `lengthscale=")  # that it speaks is tested elsewhere
    path = RESULTS / "prior.json"
    contents: dict[str, Any] = {"command": "make benchmark-prior DATA=DIR", **environment(), "caps": CAPS}
    kept = json.loads(path.read_text()) if path.exists() else {}
    results = kept["results"] if contents.items() <= kept.items() else {}
    for name, part in parts(folder).items():
        if name not in results:
            runs = itertools.product(range(part.seeds), ARMS)
            results[name] = [record for seed, arm in runs for record in train(part, arm, seed, folder or Path())]
            with replacing(path) as file:
                file.write(json.dumps(contents | {"batch_size": BATCH_SIZE, "results": results}, indent=1) + "\n")
        for arm, epochs in itertools.product(ARMS, _epochs(results[name])):
            mine = [each for each in results[name] if (each["arm"], each["epochs"]) == (arm, epochs)]
            means = {key: np.mean([each[key] for each in mine]) for key in ("accuracy", "nats") if key in mine[0]}
            print(f"{name:32} {epochs:4} {arm:11}", *(f"{key} {mean:.3f}" for key, mean in means.items()), flush=True)
    draw(results).savefig(RESULTS / "prior.png", dpi=130)
    performance_page.main()


if __name__ == "__main__":
    main()
