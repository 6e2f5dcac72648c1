"""Find the minima of the two objectives of the page's landscape over the number of data, into ``landscape.json``.

The explainer's sketch is ``p/N + 0.8 (1-p)^2 - (K/N) H(p)``; beside it stands what training minimises for a linear
layer of K inputs with fixed weights, ``|W|^2 = 1/4``, noise variance 1 and ``l^2 = K``. Run with ``make docs-figures``.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gumdrop_experiments.harness import write_json
from gumdrop_experiments.harness.origin import of_script

RESULTS = Path(__file__).parents[1] / "results"
NUMBERS = (10, 30, 100, 300, 1000, 3000, 10000)
WIDTHS = (50, 100, 200, 350, 500)
P = np.linspace(0.01, 0.99, 98001)
ENTROPY = -P * np.log(P) - (1 - P) * np.log1p(-P)


def sketch(num_data: int, units: int) -> np.ndarray:
    """Explainer's loss at all rates."""
    return P / num_data + 0.8 * (1 - P) ** 2 - units / num_data * ENTROPY


def true_terms(num_data: int, units: int) -> np.ndarray:
    """Loss that training minimises, at all rates."""
    likelihood = 0.125 * P / (1 - P)
    return likelihood + (units * 0.125 / (1 - P) - units * ENTROPY) / num_data


def minima(loss: Callable[[int, int], np.ndarray]) -> dict[str, list[float]]:
    """Rates of least loss, by width, for each number of data."""
    return {str(units): [float(P[np.argmin(loss(n, units))]) for n in NUMBERS] for units in WIDTHS}


def main() -> None:
    """Write them."""
    results = {"num_data": NUMBERS, "sketch": minima(sketch), "true_terms": minima(true_terms)}
    contents = {"command": "make docs-figures", "code": of_script(), "results": results}
    write_json(RESULTS / "landscape.json", contents)


if __name__ == "__main__":
    main()
