"""What is tried with uncertainty: labels are chosen, out-of-distribution rows found, and rates watched as data grow."""

from functools import partial

from threadpoolctl import threadpool_limits

from gumdrop_experiments.decisions.work import CHOICES, growing, label, outliers
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import BaseSettings

SEEDS, LABEL_SEEDS, QUICK_SEEDS = 5, 3, 2
ROUNDS, QUICK_ROUNDS = 4, 1
QUICK_PASSES = 3
SIZES = {"diabetes": [50, 100, 200, 442], "digits": [100, 200, 400, 800, 1797]}
QUICK_SIZES = {"diabetes": [50, 100], "digits": [50, 100]}


@threadpool_limits.wrap(limits=1)
def study(settings: BaseSettings, run: Run) -> Plain:
    """Try each with several seeds."""
    quick, seed = run.options.quick, run.options.seed
    seeds = range(seed, seed + (QUICK_SEEDS if quick else SEEDS))
    rounds, passes = (QUICK_ROUNDS, QUICK_PASSES) if quick else (ROUNDS, None)
    found = [run.part(f"outliers.{seed}", partial(outliers, seed, passes)) for seed in seeds]
    rates = {
        name: [run.part(f"growing.{name}.{seed}", partial(growing, name, seed, sizes, passes)) for seed in seeds[:2]]
        for name, sizes in (QUICK_SIZES if quick else SIZES).items()
    }
    curves = {
        choice: [
            run.part(f"digits.{number}.{seed}", partial(label, choice, seed, rounds, passes))
            for seed in seeds[:LABEL_SEEDS]
        ]
        for number, choice in enumerate(CHOICES)
    }
    return {"labels": curves, "outliers": found, "growing": rates}
