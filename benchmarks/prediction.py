"""How fast are predictions? Many draws at once against the loop over draws and against the matrix products alone.

Run with ``python benchmarks/prediction.py`` (some minutes); ``--uci DIR`` adds the comparison without sampling
on the trained networks of the sets in DIR. Writes ``docs/results/prediction.json`` and ``prediction-growth.png``; parts
can be run alone by name and keep the others. All times are processor times of one thread, so that other work on the
machine counts little, and functions take turns.
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.prediction import draws, propagate_moments
from gumdrop.prediction.moments import propagation
from gumdrop.training import fit_stacked
from gumdrop_experiments.data.uci import read_splits

from timing import RESULTS, summary, write_results

SEED = 0
SECONDS = 0.6
"""Time for the rounds of one comparison, at least one round."""


class Recurrent(nn.Module):
    """An LSTM over 20 steps of 8 features, whose last state is read out."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, width, layers, batch_first=True), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Read the last state out."""
        return self.head(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    """The basic block of a residual network."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        stride = 1 if before == width else 2
        self.conv1, self.norm1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(before, width, 1, stride, bias=False) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Add what two convolutions make of the input to it."""
        return torch.relu(self.skip(x) + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


def residual() -> nn.Module:
    """Build ResNet-18 with an eighth of its channels."""
    widths = [8, 8, 8, 16, 16, 32, 32, 64, 64]
    blocks = [Block(a, b) for a, b in itertools.pairwise(widths)]
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 2)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *blocks, *ends)


class Transformer(nn.Module):
    """Six encoder layers over 16 tokens."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.embed, self.head = nn.Linear(8, 64), nn.Linear(64, 2)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Read the mean of the tokens out."""
        return self.head(self.encoder(self.embed(x)).mean(1))


def dense(sizes: Sequence[int]) -> nn.Module:
    """Build a ReLU network."""
    return mlp(sizes[0], sizes[-1], hidden=sizes[1:-1])


SMALL, WIDE, CO2 = (13, 50, 50, 2), (13, 512, 512, 512, 2), (1, 1024, 1024, 1024, 1024, 1024, 2)

CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Sequence[int] | None]] = {
    "MLP 2 x 50, 1 row": (lambda: dense(SMALL), (1, 13), SMALL),
    "MLP 2 x 50, 64 rows": (lambda: dense(SMALL), (64, 13), SMALL),
    **{f"MLP 3 x 512, {n} row{'s' * (n > 1)}": (lambda: dense(WIDE), (n, 13), WIDE) for n in (1, 16, 64, 256, 1024)},
    "CO2 net 5 x 1024, 523 rows": (lambda: dense(CO2), (523, 1), CO2),
    "LSTM 64, 1 row": (lambda: gd.learn_dropout(Recurrent(64, 1)), (1, 20, 8), None),
    "LSTM 64, 64 rows": (lambda: gd.learn_dropout(Recurrent(64, 1)), (64, 20, 8), None),
    "LSTM 2 x 256, 64 rows": (lambda: gd.learn_dropout(Recurrent(256, 2)), (64, 20, 8), None),
    "ResNet-18-like, 8 rows": (lambda: gd.learn_dropout(residual()), (8, 3, 16, 16), None),
    "transformer, 6 layers, 8 rows": (lambda: gd.learn_dropout(Transformer()), (8, 16, 8), None),
}


def made(name: str) -> tuple[nn.Module, Tensor]:
    """Build a case: its network and input."""
    torch.manual_seed(SEED)
    make, shape, _ = CASES[name]
    return make(), torch.randn(shape)


@contextmanager
def loop_over_draws():
    """Context in which predictions take no other way than the loop over draws."""
    ways = draws._Call.ways
    draws._Call.ways = lambda call: iter([call._one_by_one])
    try:
        yield
    finally:
        draws._Call.ways = ways


def predict(model: nn.Module, x: Tensor, num_samples: int) -> Callable[[], object]:
    """Give a function that predicts, with running moments only."""
    return lambda: gd.predict_regression(model, x, num_samples=num_samples, seed=SEED, keep_draws=False)


def looped(function: Callable[[], object]) -> Callable[[], object]:
    """Give a function that predicts by the loop over draws."""

    def run() -> None:
        with loop_over_draws():
            function()

    return run


def products(sizes: Sequence[int], rows: int, num_samples: int) -> dict[str, Callable[[], object]]:
    """Matrix products of all draws alone, into memory that is there, with several numbers of rows at once."""
    found = {}
    for at_once in sorted({rows, max(256 // rows, 1) * rows, max(1024 // rows, 1) * rows}):
        each = min(at_once // rows, num_samples)
        inputs = [torch.randn(each * rows, size) for size in sizes[:-1]]
        weights = [torch.randn(b, a) for a, b in itertools.pairwise(sizes)]
        outputs = [torch.empty(each * rows, size) for size in sizes[1:]]

        def run(inputs: Any = inputs, weights: Any = weights, outputs: Any = outputs, each: int = each) -> None:
            for start in range(0, num_samples, each):
                count = min(each, num_samples - start) * rows
                for x, weight, out in zip(inputs, weights, outputs, strict=True):
                    torch.mm(x[:count], weight.T, out=out[:count])

        found[f"products, {each * rows} rows at once"] = run
    return found


def timed(functions: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Processor times of functions that take turns, in seconds."""
    once = {}
    for name, function in functions.items():
        start = time.process_time()
        function()
        once[name] = time.process_time() - start
    rounds = int(min(25, max(1 if sum(once.values()) > 3 else 2, SECONDS / sum(once.values()))))
    times: dict[str, list[float]] = {name: [once[name]] if rounds == 1 else [] for name in functions}
    for _ in range(rounds if rounds > 1 else 0):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return times


def compare_draws() -> list[dict[str, Any]]:
    """Compare ours with the loop, and with the products where the network is dense."""
    rows = []
    for name, (_, shape, sizes) in CASES.items():
        model, x = made(name)
        slow = False
        for num_samples in (10, 100, 1000):
            if slow and num_samples == 1000:
                continue  # ten times the time of 100 draws, which says no more
            ours = predict(model, x, num_samples)
            functions = {"ours": ours, "loop": looped(ours)}
            if sizes is not None:
                functions |= products(sizes, shape[0], num_samples)
            times = timed(functions)
            best = min((key for key in times if key.startswith("products")), key=lambda k: min(times[k]), default=None)
            row = {"case": name, "draws": num_samples, "rounds": len(times["ours"])}
            row["times"] = summary(times, best or "loop")
            row["loop_over_ours"] = summary(times, "ours")["loop"]["ratio"]
            if best is not None:
                row["ours_over_products"] = row["times"]["ours"]["ratio"]
                row["loop_over_products"] = row["times"]["loop"]["ratio"]
            rows.append(row)
            slow = min(times["loop"]) > 0.3
            ratio = row.get("ours_over_products")
            print(
                f"{name:32} {num_samples:5} draws: ours {row['times']['ours']['least_ms']:10.2f} ms, loop / ours "
                f"{row['loop_over_ours']:6.2f}" + (f", ours / products {ratio:5.2f}" if ratio else ""),
                flush=True,
            )
    return rows


def compare_prefix() -> list[dict[str, Any]]:
    """Time a network whose first layer has a rate of zero to rounding, and one without that layer."""
    rows = []
    for count in (16, 64, 256):
        torch.manual_seed(SEED)
        sizes = (512, 512, 512, 512, 2)
        whole, resting, x = dense(sizes), dense(sizes), torch.randn(count, 512)
        next(iter(resting.children())).get_submodule("concrete_dropout").start_at(1e-13)
        rest = dense(sizes[1:])
        functions = {"whole": predict(whole, x, 100), "first rate 0": predict(resting, x, 100)}
        times = timed(functions | {"without the layer": predict(rest, x, 100)})
        rows.append({"rows": count, "times": summary(times, "whole")})
        print(count, {key: value["ratio"] for key, value in rows[-1]["times"].items()}, flush=True)
    return rows


MEMORY = ("MLP 2 x 50, 64 rows", "MLP 3 x 512, 64 rows", "LSTM 64, 64 rows")


def compare_memory() -> list[dict[str, Any]]:
    """Peak memory of a process that predicts, for few and many draws."""
    rows = []
    for name in MEMORY:
        peaks = {}
        for num_samples in (10, 1000):
            command = [sys.executable, __file__, "peak", "--case", name, "--draws", str(num_samples)]
            peaks[num_samples] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        before, few = peaks[10]
        ratio = peaks[1000][1] / few
        rows.append({"case": name, "mebibytes_before": before, "10": few, "1000": peaks[1000][1], "ratio": ratio})
        print(rows[-1], flush=True)
    return rows


def peak(name: str, num_samples: int) -> tuple[float, float]:
    """Peak memory before and after a prediction, in MiB."""
    model, x = made(name)
    predict(model, x, 2)()  # loads what is loaded on first use
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    predict(model, x, num_samples)()
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare_moments(folder: Path) -> list[dict[str, Any]]:
    """Standard deviations and times without sampling, on networks trained on the sets in a folder."""
    rows = []
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        split = read_splits(path, most=1)[0]
        torch.manual_seed(SEED)
        model = mlp(split.x_train.shape[1], 1, homoscedastic_noise=True)
        epochs = max(1, 2500 * 32 // len(split.x_train))
        data = (split.x_train, split.y_train)
        fit_stacked([model], [data], likelihood="gaussian", epochs=epochs, lengthscale="weak", seed=SEED)
        rows.append({"set": path.name} | _moments_of(model, split.x_test[:64]))
        print(rows[-1], flush=True)
    return rows


def by_slopes(model: nn.Module, x: Tensor) -> gd.likelihoods.RegressionPrediction:
    """Predict without sampling as networks of many units or high rates do."""
    rare = propagation._drops_are_rare
    propagation._drops_are_rare = lambda layers: False
    try:
        return gd.predict_regression(model, x, method="moments")
    finally:
        propagation._drops_are_rare = rare


def _moments_of(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Compare with very many draws, and time."""
    many = gd.predict_regression(model, x, num_samples=100_000, seed=SEED, keep_draws=False)
    reference = many.epistemic.sqrt()

    def error(prediction: gd.likelihoods.RegressionPrediction) -> dict[str, float]:
        ratio = prediction.epistemic.sqrt() / reference
        return {"mean_absolute_error": float((ratio - 1).abs().mean()), "median_ratio": float(ratio.median())}

    ours = predict(model, x, 100)
    functions = {"moments": lambda: gd.predict_regression(model, x, method="moments")}
    times = summary(timed(functions | {"100 draws": ours, "loop over 100 draws": looped(ours)}), "moments")
    return {
        "rates": list(gd.dropout_rates(model).values()),
        "moments": error(gd.predict_regression(model, x, method="moments")),
        "slopes": error(by_slopes(model, x)),
        "100 draws": error(gd.predict_regression(model, x, num_samples=100, seed=SEED + 1)),
        "mean_off_in_sd": float(((propagate_moments(model, x).mean[:, :1] - many.mean) / reference).abs().mean()),
        "times": times,
    }


GROWTH = {
    "draws": (10, 30, 100, 300, 1000, 3000),
    "rows": (1, 4, 16, 64, 256, 1024),
    "width": (16, 32, 64, 128, 256, 512, 1024),
}


def compare_growth() -> list[dict[str, Any]]:
    """Time two hidden layers against draws, rows and width, from 100 draws, 64 rows and a width of 50."""
    rows = []
    for axis, values in GROWTH.items():
        for value in values:
            at = {"draws": 100, "rows": 64, "width": 50} | {axis: value}
            torch.manual_seed(SEED)
            model, x = dense((13, at["width"], at["width"], 2)), torch.randn(at["rows"], 13)
            ours = predict(model, x, at["draws"])
            functions = {"ours": ours, "loop": looped(ours)}
            functions["moments"] = lambda model=model, x=x: gd.predict_regression(model, x, method="moments")
            least = {name: min(each) * 1e3 for name, each in timed(functions).items()}
            rows.append({"axis": axis, **at, "least_ms": least})
            print(rows[-1], flush=True)
    return rows


def draw_growth(rows: list[dict[str, Any]]) -> Figure:
    """One panel for each axis."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    colours = {"loop": "#888888", "ours": "#1f6fb4", "moments": "#d1661f"}
    labels = {"loop": "loop over draws", "ours": "draws at once", "moments": "without sampling"}
    for axes, axis in zip(figure.subplots(1, 3, sharey=True), GROWTH, strict=True):
        mine = [row for row in rows if row["axis"] == axis]
        for name, colour in colours.items():
            values = [row["least_ms"][name] for row in mine]
            axes.loglog([row[axis] for row in mine], values, marker="o", ms=4, color=colour, label=labels[name])
        axes.set_xlabel({"draws": "draws", "rows": "rows", "width": "units of each hidden layer"}[axis])
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axis == "draws":
            axes.set_ylabel("processor time, ms")
            axes.legend(frameon=False, fontsize=8)
    figure.suptitle("Cost of a prediction (from 100 draws, 64 rows, 2 x 50 units)", fontsize=10)
    return figure


def main() -> None:
    """Run the parts asked for and write their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["memory", "draws", "prefix", "growth", "moments"])
    parser.add_argument("--uci", type=Path, help="folder of the UCI sets")
    parser.add_argument("--case")
    parser.add_argument("--draws", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.parts == ["peak"]:
        print(json.dumps(peak(arguments.case, arguments.draws)))
        return
    path = RESULTS / "prediction.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    comparisons: dict[str, Callable[[], Any]] = {
        "draws": compare_draws,
        "prefix": compare_prefix,
        "memory": compare_memory,
        "growth": compare_growth,
    }
    if arguments.uci is not None:
        comparisons["moments"] = lambda: compare_moments(arguments.uci)
    # Memory first: a process is charged with the peak of the one that starts it.
    for part in sorted(arguments.parts, key=lambda part: part != "memory"):
        if part in comparisons:
            results[part] = comparisons[part]()
            write_results("prediction", command="python benchmarks/prediction.py", seed=SEED, results=results)
    if "growth" in results:
        draw_growth(results["growth"]).savefig(RESULTS / "prediction-growth.png", dpi=130)


if __name__ == "__main__":
    main()
