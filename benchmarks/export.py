"""Are exported files right, and fast? Moments beside the library's at 1,000 draws, and times for 100 draws.

Three small models: what ``gumdrop fit`` leaves for patients with diabetes (20 networks), and one network each for
numbers and for classes. One thread. Run with ``make benchmark-export``; writes ``docs/results/export.json``.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor

from gumdrop.export import export_model, export_table
from gumdrop.export.graphs import Graph, ModelGraph
from gumdrop.export.table_graph import TableGraph
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.networks import mlp
from gumdrop.tables import load_table_model
from gumdrop.tables.fitting.fit import FitSettings, fit_table
from gumdrop.training import fit

from timing import interleaved, summary, write_results

SEED = 0
EPOCHS = 20
REPEATS = 40
ROUNDS = 15
SIZES = (1, 32, 400)


def table(folder: Path) -> tuple[Callable[..., Graph], Callable[..., Path], Tensor]:
    """Patients with diabetes, with the networks of the default: twenty of 64 and 64 units."""
    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    frame.to_csv(folder / "diabetes.csv", index=False)
    fit_table(folder / "diabetes.csv", "progression", folder / "run", settings=FitSettings(epochs=EPOCHS, seed=SEED))
    model = load_table_model(folder / "run")
    columns = torch.from_numpy(frame.drop(columns="progression").to_numpy(dtype=np.float64, copy=True))
    return partial(TableGraph, model), partial(export_table, model), columns


def network(classes: bool) -> tuple[Callable[..., Graph], Callable[..., Path], Tensor]:
    """One network of 50 and 50 units, for the patients' progression or for handwritten digits."""
    data, target = (load_digits if classes else load_diabetes)(return_X_y=True)
    x = torch.tensor((data - data.mean(0)) / (data.std(0) + 1e-9), dtype=torch.float32)
    y = torch.tensor(target) if classes else torch.tensor((target - target.mean()) / target.std()).float()[:, None]
    torch.manual_seed(SEED)
    model = mlp(x.shape[1], 10 if classes else 2)
    likelihood = "categorical" if classes else "gaussian"
    fit(model, (x, y), likelihood=likelihood, epochs=EPOCHS, seed=SEED)
    graph = partial(ModelGraph, model, x, likelihood=Categorical() if classes else Gaussian())
    return graph, partial(export_model, model, x, likelihood=likelihood), x


def session(path: Path) -> onnxruntime.InferenceSession:
    """Open a file in onnxruntime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@torch.no_grad()
def exactness(graph: Callable[..., Graph], export: Callable[..., Path], x: Tensor, place: Path) -> dict[str, Any]:
    """Differences from torch at 1,000 draws: with the same noise, and with free noise on average over calls."""
    fixed = graph(variant="noise", num_samples=1000)
    noise = torch.rand(fixed.num_samples, fixed.num_noise, generator=torch.Generator().manual_seed(SEED))
    file = session(export(place, variant="noise", num_samples=1000))
    theirs = file.run(None, {fixed.input_names[0]: x.numpy(), "noise": noise.numpy()})
    ours = fixed(x, noise)
    same = {
        n: float((abs(v.numpy() - t) / v.abs().mean()).max()) for (n, v), t in zip(ours.items(), theirs, strict=True)
    }
    free = graph(variant="moments", num_samples=1000)
    file = session(export(place, variant="moments", num_samples=1000))
    theirs = [file.run(None, {free.input_names[0]: x.numpy()}) for _ in range(REPEATS)]
    references = [free.reference([x], seed) for seed in range(REPEATS)]
    chance = {}
    for i, name in enumerate(ours):
        a, b = (
            np.array([v.reshape(len(v), -1)[:, 0].mean() for v in each])  # probabilities of all classes add up to 1
            for each in ([r[name].numpy() for r in references], [t[i] for t in theirs])
        )
        error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / REPEATS)
        size = np.abs(a).mean() if name != "mean" else np.mean([r["mean"].std() for r in references])
        chance[name] = {"difference": float((b.mean() - a.mean()) / size), "standard_error": float(error / size)}
    return {"same_noise_worst_row": same, "free_noise_mean_over_rows": chance}


@torch.no_grad()
def times(graph: Callable[..., Graph], export: Callable[..., Path], x: Tensor, place: Path) -> dict[str, Any]:
    """Times of 100 draws: torch as the library predicts, and onnxruntime."""
    free = graph(variant="moments", num_samples=100)
    file = session(export(place, variant="moments", num_samples=100))
    name = free.input_names[0]
    result = {}
    for size in SIZES:
        rows = x[:size].contiguous()
        functions = {
            "torch": partial(free.reference, [rows], SEED),
            "onnxruntime": partial(file.run, None, {name: rows.numpy()}),
        }
        result[f"{size} rows"] = summary(interleaved(functions, rounds=ROUNDS), "torch")
    return result


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "table, 20 networks": table(Path(folder)),
            "one network, numbers": network(classes=False),
            "one network, classes": network(classes=True),
        }
        for name, (graph, export, x) in cases.items():
            place = Path(folder) / "model.onnx"
            right = exactness(graph, export, x[:100], place)
            results[name] = {"moments": right, "times": times(graph, export, x, place)}
            print(name, right, *results[name]["times"].items(), sep="\n  ")
    versions = {"onnxruntime": onnxruntime.__version__}
    write_results("export", command="make benchmark-export", seed=SEED, results=results, **versions)


if __name__ == "__main__":
    main()
