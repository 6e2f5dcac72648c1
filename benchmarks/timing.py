"""What the benchmarks share: named functions timed in turns, medians, ratios to one of them, and the results file.

Functions are interleaved, so that another program on the machine slows all of them alike, and a ratio is taken within
each round before the median over rounds. `summary` gives the quartiles of these ratios as the spread.
"""

import json
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop_experiments.harness.origin import of_script

CLOCK = "time of the processor with one thread, else of the clock"
LEAST_ROUNDS = 5
RESULTS = Path(__file__).parents[1] / "docs" / "results"


class Seconds(NamedTuple):
    """Time of one call."""

    process: float
    """What all threads of the program spend on a processor, whatever else a busy machine does."""
    wall: float
    """Time of the clock."""

    @property
    def chosen(self) -> float:
        """The first with one thread; with several, which wait by spinning, and on a GPU the second."""
        return self.process if torch.get_num_threads() == 1 and not torch.cuda.is_available() else self.wall


def seconds_of(function: Callable[[], object], calls: int = 1) -> Seconds:
    """Time of one call in seconds, as the mean of some; a GPU is waited for.

    Args:
        function: What to call.
        calls: How often.

    Returns:
        Seconds.
    """
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    synchronize()
    process, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        function()
    synchronize()
    return Seconds((time.process_time() - process) / calls, (time.perf_counter() - wall) / calls)


def interleaved(
    functions: Mapping[str, Callable[[], object]], *, rounds: int = 30, least_seconds: float = 0.005, seed: int = 0
) -> dict[str, list[float]]:
    """Time named functions in turns, in another order each round.

    Args:
        functions: As for `in_turns`, like all that follow.
        rounds: Samples of each function.
        least_seconds: Length of a sample.
        seed: Seed of the order.

    Returns:
        Seconds for one call, by name, one for each round, of the clock that `Seconds.chosen` chooses.
    """
    times = in_turns(functions, rounds=rounds, least_seconds=least_seconds, seed=seed)
    return {name: [each.chosen for each in found] for name, found in times.items()}


def in_turns(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    least_seconds: float = 0.005,
    most_seconds: float = math.inf,
    seed: int = 0,
) -> dict[str, list[Seconds]]:
    """Time named functions in turns, by both clocks.

    Args:
        functions: What to time, by name. Each is called twice before, which compiles what is to be compiled.
        rounds: Samples of each function.
        least_seconds: Length of a sample: a function quicker than that is called as often as it fits.
        most_seconds: Time of the clock after which no further round begins, once there are `LEAST_ROUNDS`.
        seed: Seed of the order.

    Returns:
        Seconds for one call, by name, one for each round.
    """
    for function in functions.values():
        function()
    first = {name: max(seconds_of(function).chosen, 1e-6) for name, function in functions.items()}
    calls = {name: max(1, round(least_seconds / seconds)) for name, seconds in first.items()}
    order, shuffle = list(functions), random.Random(seed).shuffle
    times: dict[str, list[Seconds]] = {name: [] for name in functions}
    end = time.perf_counter() + most_seconds
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() > end:
            break
        shuffle(order)
        for name in order:
            times[name].append(seconds_of(functions[name], calls[name]))
    return times


def summary(times: Mapping[str, list[float]], reference: str) -> dict[str, dict[str, Any]]:
    """Summarise what `interleaved` measured.

    Args:
        times: Seconds, by name, one for each round.
        reference: Name of the function that the others are compared with.

    Returns:
        By name: ``median_ms`` and ``least_ms`` of one call, ``ratio``, the median over rounds of the time in units of
        the reference's of the same round, and its ``ratio_quartiles``.
    """
    result = {}
    for name, values in times.items():
        ratios = [value / other for value, other in zip(values, times[reference], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        result[name] = {
            "median_ms": _digits(1e3 * statistics.median(values)),
            "least_ms": _digits(1e3 * min(values)),
            "ratio": _digits(middle),
            "ratio_quartiles": [_digits(low), _digits(high)],
        }
    return result


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def write_results(name: str, *, command: str, seed: int, results: Any, device: str = "cpu", **settings: Any) -> Path:
    """Write a results file whole, with what it was made with.

    Args:
        name: Of the file, without its ending.
        command: Makes it again.
        seed: Seed of the data and masks.
        results: Anything that JSON knows.
        device: Where the functions ran.
        settings: Further entries of the file.

    Returns:
        Its path under ``docs/results``.
    """
    path = RESULTS / f"{name}.json"
    made_with = {"command": command, "seed": seed, **environment(device), "code": of_script(), "clock": CLOCK}
    contents = {**made_with, **settings, "results": results}
    with replacing(path) as file:
        file.write(json.dumps(contents, indent=1) + "\n")
    return path
