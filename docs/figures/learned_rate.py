"""Does training find the right rate? Draw the exact objective over p and the rates that training found.

The problem is a linear model with Gaussian noise and one dropout site, whose expected loss over all masks is known in
closed form. Run with ``make docs-figures``; writes ``docs/results/learned_rate.json`` and ``.png``.
"""

import json
import platform
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from builders import reference
from builders.optimum import train

SIZES = (20, 60, 200)
SEEDS = range(5)
TEMPERATURE = 0.1
RESULTS = Path(__file__).parents[1] / "results"


def exact_loss(problem: reference.LinearProblem, p: float) -> float:
    """Loss at p in nats per datum, with the best weights for that p."""
    weight = problem.best_weight(p, *reference.hard_moments(p))
    return (problem.nll(weight, *reference.hard_moments(p)) + problem.kl(weight, p)) / problem.num_data


def study(num_data: int) -> dict:
    """Exact curve, its minimiser and that under relaxed masks, and trained rates, for one size of data."""
    problem = reference.linear_problem(num_data)
    grid = np.linspace(0.01, 0.7, 140)
    trained = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        trained.append(train(problem, temperature=TEMPERATURE))
    return {
        "num_data": num_data,
        "grid": grid.tolist(),
        "loss": [exact_loss(problem, p) for p in grid],
        "best_p": problem.best_p(reference.hard_moments),
        "best_p_relaxed": problem.best_p(lambda p: reference.soft_moments(p, TEMPERATURE)),
        "trained_p": trained,
    }


def draw(results: list[dict]) -> Figure:
    """One curve for each size of data, shifted to its minimum."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, result in enumerate(results):
        loss = np.array(result["loss"]) - min(result["loss"])
        colour = f"C{i}"
        axes.plot(result["grid"], loss, color=colour, label=f"N = {result['num_data']}: exact loss")
        axes.axvline(result["best_p"], ymax=0.3, color=colour, linestyle=":", linewidth=1)
        height = np.interp(result["trained_p"], result["grid"], loss)
        axes.plot(result["trained_p"], height, "o", color=colour, markersize=6, alpha=0.6)
    axes.plot([], [], "o", color="grey", label=f"found by training ({len(SEEDS)} seeds)")
    axes.plot([], [], ":", color="grey", label="exact minimum")
    axes.set(xlabel="drop probability p", ylabel="loss above its minimum, nats per datum", ylim=(-0.004, 0.12))
    axes.set_xlim(0, 0.7)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Run the study and write its results."""
    results = [study(size) for size in SIZES]
    RESULTS.mkdir(exist_ok=True)
    contents = {
        "command": "make docs-figures",
        "seeds": list(SEEDS),
        "temperature": TEMPERATURE,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "hardware": f"{platform.machine()} CPU",
        "largest_error": max(abs(p - r["best_p"]) for r in results for p in r["trained_p"]),
        "results": results,
    }
    (RESULTS / "learned_rate.json").write_text(json.dumps(contents, indent=1) + "\n")
    draw(results).savefig(RESULTS / "learned_rate.png", dpi=150)
    for result in results:
        found = ", ".join(f"{p:.3f}" for p in result["trained_p"])
        best = f"exact {result['best_p']:.3f}, relaxed {result['best_p_relaxed']:.3f}"
        print(f"N = {result['num_data']}: {best}, trained {found}")


if __name__ == "__main__":
    main()
