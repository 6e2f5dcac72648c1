"""What the parts of `sentiment` say together: means over seeds, and the best variants by their test likelihood."""

from collections.abc import Sequence

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error

SCORES = {"accuracy": "accuracy, %", "nll": "negative log likelihood, nats", "ece": "calibration error, %"}
"""What each score is called."""


def summary(parts: Sequence[Plain]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error of each score over seeds, with draws and without."""
    return {
        how: {name: mean_and_error([part[how][name] for part in parts]) for name in SCORES}
        for how in ("draws", "no_draws")
    }


def best_fixed(results: Plain) -> str:
    """The best of the fixed rates, of those without phrases."""
    return _best(results, learned=False)


def best_learned(results: Plain) -> str:
    """The better of the learned rates, of those without phrases."""
    return _best(results, learned=True)


def _best(results: Plain, *, learned: bool) -> str:
    labels = [label for label in results if label.startswith("learned") == learned and "phrases" not in label]
    return min(labels, key=lambda label: results[label]["summary"]["draws"]["nll"][0])
