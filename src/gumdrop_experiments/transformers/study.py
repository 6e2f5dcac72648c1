"""Each task with each way to set the rates."""

from functools import partial

import torch

from gumdrop.networks import fix_dropout, learn_dropout
from gumdrop.training import fit
from gumdrop_experiments.data.texts import SST
from gumdrop_experiments.harness import Plain, data_folder, part_name, rate_of
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.transformers import Settings
from gumdrop_experiments.transformers.tasks import Task, review_task, sum_task

VARIANTS = ("none", "fixed 0.1", "fixed 0.3", "learned")
LENGTHSCALE, MAX_NORM = 1.0, 5.0


def study(settings: Settings, run: Run) -> Plain:
    """Train and score both networks in all ways, with several seeds."""
    folder = data_folder(run.options, "sst", sources=SST, files=[file.name for file in SST])
    tasks = [
        (review_task(folder, quick=run.options.quick), settings.review_epochs),
        (sum_task(settings.lines, run.options.seed), settings.sum_epochs),
    ]
    seeds = range(run.options.seed, run.options.seed + settings.seeds)
    done = run.parts(
        {
            part_name(task.name, variant, seed): partial(_trained, run, task, variant, epochs, seed)
            for task, epochs in tasks
            for variant in VARIANTS
            for seed in seeds
        }
    )
    return {
        task.name: {variant: [done[part_name(task.name, variant, seed)] for seed in seeds] for variant in VARIANTS}
        for task, _ in tasks
    }


def _trained(run: Run, task: Task, variant: str, epochs: int, seed: int) -> Plain:
    """Train a network with one way to set the rates, and score it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = task.build().to(run.options.device)
        learn_dropout(model, p=rate_of(variant), report=lambda report: None, **task.conversion)
        if variant != "learned":
            fix_dropout(model)
        result = fit(
            model,
            task.train,
            likelihood=task.likelihood,
            epochs=epochs,
            validation=task.validation,
            validation_samples=3,
            batch_size=64,
            lr=task.lr,
            max_norm=MAX_NORM,
            lengthscale=LENGTHSCALE,
            seed=seed,
            checkpoint=run.checkpoint(part_name(task.name, variant, seed)),
            progress=f"{task.name}, {variant}, seed {seed}",
        )
    test = tuple(part.to(run.options.device) for part in task.test)
    return {
        "scores": task.score(model, (test[0], test[1]), seed),
        "rates": {name: [record.rates[name] for record in result.history] for name in result.history[0].rates},
        "validation_nll": [record.validation_nll for record in result.history],
        "best_epoch": result.best_epoch,
    }
