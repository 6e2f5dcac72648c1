"""What it saves that draws which keep all units run once: predictions at small rates, against running all draws.

Both run in turns, on the same seed, so that their results are the same. Run with ``python benchmarks/equal_draws.py``,
in half a minute; writes ``docs/results/equal_draws.json``.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import dropout_blocks
from gumdrop.networks import mlp
from gumdrop.prediction.ways import evaluate

from timing import interleaved, summary, write_results

SEED, DRAWS, INPUTS, ROUNDS = 0, 100, 13, 5
RATES = (1e-4, 1e-3, 1e-2)
SIZES = {"MLP 2 x 50": (50, 50), "MLP 3 x 512": (512, 512, 512)}


@contextmanager
def all_of_them():
    """Context in which every draw runs."""
    before = evaluate.EQUAL
    evaluate.EQUAL = math.inf
    try:
        yield
    finally:
        evaluate.EQUAL = before


def with_rate(hidden: tuple[int, ...], p: float) -> nn.Module:
    """A network whose rates are all the same."""
    torch.manual_seed(SEED)
    model = mlp(INPUTS, 2, hidden=hidden)
    for block in dropout_blocks(model):
        block.site.start_at(p)
    return model


def compare(name: str, rows: int, p: float) -> dict[str, Any]:
    """Time 100 draws either way."""
    model, x = with_rate(SIZES[name], p), torch.randn(rows, INPUTS)

    def ours() -> object:
        return gd.sample(model, x, num_samples=DRAWS, seed=SEED)

    def every() -> object:
        with all_of_them():
            return ours()

    functions: dict[str, Callable[[], object]] = {"all draws": every, "equal ones once": ours}
    times = summary(interleaved(functions, rounds=ROUNDS, seed=SEED), "all draws")
    units = sum(block.site.num_units for block in dropout_blocks(model))
    return {"network": name, "rows": rows, "rate": p, "keep_all": round((1 - p) ** units, 4), "times": times}


def main() -> None:
    """Time all cases and write them."""
    torch.set_num_threads(1)
    found = [compare(name, rows, p) for name in SIZES for rows in (1, 64) for p in RATES]
    for row in found:
        print({key: value for key, value in row.items() if key != "times"}, row["times"]["equal ones once"]["ratio"])
    write_results("equal_draws", command="python benchmarks/equal_draws.py", seed=SEED, results=found, draws=DRAWS)


if __name__ == "__main__":
    main()
