"""Learned dropout in transformers: a small BERT on film reviews, and a small GPT on sums that a program writes.

Both are converted with one call. Sites stand in front of every projection: of queries, keys and values (what attention
reads), of its output (what it has gathered), and of both feed-forward maps (what goes into the residual stream). A mask
is shared by all tokens of a sentence, so the fused attention kernels run as they are.
"""

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure as Drawing
from torch import Tensor, nn

from gumdrop import metrics
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import fix_dropout, learn_dropout
from gumdrop.prediction import predict_classification, sample
from gumdrop.training import fit
from gumdrop.views import plots
from gumdrop_experiments.data.texts import SST, Vocabulary, read_sst
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import START, part_name, rate_of
from gumdrop_experiments.networks.transformers import CharacterModel, ReviewEncoder, character_nll, encoded, sums
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["transformers"]

ARMS = ("none", "fixed 0.1", "fixed 0.3", "learned")
LENGTHSCALE, MAX_NORM = 1.0, 5.0
NUM_SAMPLES = 30
HELD_OUT_SUMS = 500

Result = dict[str, Any]


@dataclass(frozen=True)
class _Task:
    """A network and its data."""

    name: str
    build: Callable[[], nn.Module]
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    likelihood: Any
    score: Callable[[nn.Module, tuple[Tensor, Tensor], int], dict[str, float]]
    scores: Mapping[str, str]
    """What each score is called, with its unit."""
    options: Mapping[str, Any]
    """For `learn_dropout`."""
    lr: float
    """Highest learning rate."""


def transformers(
    options: RunOptions = RunOptions(),
    *,
    seeds: int = 3,
    review_epochs: int = 8,
    sum_epochs: int = 8,
    lines: int = 4000,
) -> None:
    """Train two small transformers with no, fixed and learned dropout.

    Args:
        options: The flags that all experiments share.
        seeds: Networks trained in each way.
        review_epochs: Passes over the reviews.
        sum_epochs: Passes over the sums.
        lines: Sums to train with.

    Raises:
        ValueError: If a number is below 1.
    """
    if min(seeds, review_epochs, sum_epochs, lines) < 1:
        raise ValueError(
            "`seeds`, `review_epochs`, `sum_epochs` and `lines` must be at least 1, got "
            f"{seeds}, {review_epochs}, {sum_epochs} and {lines}"
        )
    if options.quick:
        seeds, review_epochs, sum_epochs, lines = 1, min(review_epochs, 1), min(sum_epochs, 1), min(lines, 300)
    folder = data_folder(options, "sst", sources=SST, files=[file.name for file in SST])
    own = {"seeds": seeds, "review_epochs": review_epochs, "sum_epochs": sum_epochs, "lines": lines}
    with Run("transformers", options, own) as run, limited_threads(1):
        tasks = [(_reviews(folder, quick=options.quick), review_epochs), (_sums(lines, options.seed), sum_epochs)]
        done = run.parts(
            {
                part_name(task.name, arm, seed): functools.partial(_train, run, task, arm, epochs, seed)
                for task, epochs in tasks
                for arm in ARMS
                for seed in range(options.seed, options.seed + seeds)
            }
        )
        results = {
            task.name: {arm: [done[part_name(task.name, arm, options.seed + i)] for i in range(seeds)] for arm in ARMS}
            for task, _ in tasks
        }
        run.figure("transformers-rates", _draw_rates(results))
        run.figure("transformers-scores", _draw_scores(results, {task.name: task.scores for task, _ in tasks}))
        run.finish(results, _page(results, {task.name: task.scores for task, _ in tasks}))


def _reviews(folder: Any, *, quick: bool) -> _Task:
    parts = [read_sst(folder, part) for part in ("train", "dev", "test")]
    vocabulary = Vocabulary(parts[0].words)
    rows = slice(400 if quick else None)
    train, dev, test = ((vocabulary.encode(part.words[rows]), part.labels[rows]) for part in parts)
    return _Task(
        name="reviews",
        build=functools.partial(ReviewEncoder, len(vocabulary)),
        train=train,
        validation=dev,
        test=test,
        likelihood="categorical",
        score=_review_scores,
        scores={"accuracy": "accuracy, %", "nll": "nats per sentence", "ece": "calibration error, %"},
        options={"embeddings": True, "exclude": ["*.position_embeddings", "*.token_type_embeddings"]},
        lr=3e-4,  # under 1e-3 the development loss jumps from epoch to epoch
    )


def _review_scores(model: nn.Module, test: tuple[Tensor, Tensor], seed: int) -> dict[str, float]:
    words, labels = test
    prediction = predict_classification(model, words, num_samples=NUM_SAMPLES, seed=seed, batch_size=512)
    return {
        "accuracy": 100 * metrics.accuracy(prediction.label, labels).item(),
        "nll": -prediction.log_prob(labels).mean().item(),
        "ece": 100 * metrics.calibration_error(prediction, labels).item(),
    }


def _sums(count: int, seed: int) -> _Task:
    held_out = min(HELD_OUT_SUMS, count)
    rows = encoded(sums(count + 2 * held_out, seed))
    train, validation, test = rows.split([count, held_out, held_out])
    return _Task(
        name="sums",
        build=functools.partial(CharacterModel, longest=rows.shape[1]),
        train=(train, train),
        validation=(validation, validation),
        test=(test, test),
        likelihood=character_nll,
        score=_sum_scores,
        scores={"nll": "nats per character", "no_draws": "nats per character, no draws"},
        options={"exclude": ["characters", "places"]},
        lr=1e-3,
    )


def _sum_scores(model: nn.Module, test: tuple[Tensor, Tensor], seed: int) -> dict[str, float]:
    lines, _ = test
    characters = (lines != 0).sum().item()
    total = 0.0
    with torch.inference_mode():
        for part in lines.split(100):
            drawn = torch.stack(
                [character_nll(draw, part) for draw in sample(model, part, num_samples=NUM_SAMPLES, seed=seed)]
            )
            total += (math.log(NUM_SAMPLES) - torch.logsumexp(-drawn, dim=0)).sum().item()
        plain = sum(character_nll(model(part), part).sum().item() for part in lines.split(100))
    return {"nll": total / characters, "no_draws": plain / characters}


def _train(run: Run, task: _Task, arm: str, epochs: int, seed: int) -> Result:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = task.build().to(run.options.device)
        learn_dropout(model, p=rate_of(arm), report=lambda report: None, **task.options)
        if arm != "learned":
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
            checkpoint=run.checkpoint(part_name(task.name, arm, seed)),
            progress=f"{task.name}, {arm}, seed {seed}",
        )
    test = tuple(part.to(run.options.device) for part in task.test)
    return {
        "scores": task.score(model, (test[0], test[1]), seed),
        "rates": {name: [record.rates[name] for record in result.history] for name in result.history[0].rates},
        "validation_nll": [record.validation_nll for record in result.history],
        "best_epoch": result.best_epoch,
    }


# Figures and page

PLACES = {
    "words": ("word_embeddings",),
    "into attention": ("query", "key", "value", "query_key_value"),
    "out of attention": ("attention.output.dense", "out"),
    "into feed-forward": ("intermediate.dense", "feed_forward.0"),
    "inside feed-forward": ("output.dense", "feed_forward.2"),
    "into the classes": ("pooler.dense", "classifier", "head"),
}


def _place(name: str) -> str:
    """Say where in a transformer a site stands; the longest ending that fits decides."""
    fits = [(len(end), place) for place, ends in PLACES.items() for end in ends if name.endswith(end)]
    return max(fits)[1]


def _draw_rates(results: Mapping[str, Any]) -> Drawing:
    """Learned rates of the epoch that is kept, from input to output; colours say where in its layer a site stands."""
    drawing = Drawing(figsize=(10.5, 4), layout="constrained")
    colours = dict(zip(PLACES, plots.PALETTE, strict=False))
    panels = drawing.subplots(1, len(results))
    for ax, (task, arms) in zip(panels, results.items(), strict=True):
        names = list(arms["learned"][0]["rates"])
        for i, name in enumerate(names):
            kept = [part["rates"][name][part["best_epoch"] - 1] for part in arms["learned"]]
            ax.plot([i] * len(kept), kept, "o", color=colours[_place(name)], alpha=0.7, markersize=5)
        ax.axhline(START, color=plots.INK, linewidth=1, linestyle=":")
        dress(ax, title=task, x="site, from input to output").set_ylim(0, None)
    panels[0].set_ylabel("drop probability p")
    for place, colour in colours.items():
        panels[0].plot([], [], "o", color=colour, label=place)
    drawing.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8
    )
    return drawing


def _draw_scores(results: Mapping[str, Any], scores: Mapping[str, Mapping[str, str]]) -> Drawing:
    """Each score of each way to set the rates."""
    wanted = [(task, score, title) for task, titles in scores.items() for score, title in titles.items()]
    drawing = Drawing(figsize=(2.5 * len(wanted), 2.8), layout="constrained")
    panels = drawing.subplots(1, len(wanted), sharey=True)
    arms = list(ARMS)[::-1]
    for ax, (task, score, title) in zip(panels, wanted, strict=True):
        for i, arm in enumerate(arms):
            mean, error = mean_and_error([part["scores"][score] for part in results[task][arm]])
            ax.errorbar(mean, i, xerr=error, fmt="o", color=plots.ORANGE if arm == "learned" else plots.BLUE, capsize=3)
        dress(ax, title=f"{task}:\n{title}")
        ax.locator_params(axis="x", nbins=4)
    panels[0].set_yticks(range(len(arms)), arms)
    return drawing


def _page(results: Mapping[str, Any], scores: Mapping[str, Mapping[str, str]]) -> Page:
    def mean(task: str, arm: str, score: str) -> float:
        return statistics.fmean(part["scores"][score] for part in results[task][arm])

    fixed = min((arm for arm in ARMS if arm != "learned"), key=lambda arm: mean("reviews", arm, "nll"))
    return Page(
        title="Learned dropout in transformers",
        lead=(
            f"A small BERT on film reviews: {mean('reviews', 'learned', 'accuracy'):.1f} % right and "
            f"{mean('reviews', 'learned', 'nll'):.3f} nats with learned rates; "
            f"{mean('reviews', fixed, 'accuracy'):.1f} % and {mean('reviews', fixed, 'nll'):.3f} nats with the best "
            f"fixed setting by test likelihood ({fixed}). A small GPT on sums in words: "
            f"{mean('sums', 'learned', 'nll'):.4f} nats per character with learned rates, "
            f"{min(mean('sums', arm, 'nll') for arm in ARMS if arm != 'learned'):.4f} with the best fixed."
        ),
        body=[
            Figure(
                "transformers-scores", "Mean and standard error over seeds; test data, with draws unless it says so."
            ),
            *(_table(task, arms, scores[task]) for task, arms in results.items()),
            Figure(
                "transformers-rates",
                "Learned rates of the epoch that is kept, a dot for each seed. Dotted: where all began.",
            ),
        ],
        notes=[
            "All arms have their sites at the same places, under the same prior, with masks that all tokens of a "
            "sentence share. The fixed dropout of attention probabilities is off: it drops no weight, so no posterior "
            "belongs to it and its rate cannot be learned by this objective.",
            "Sums are written by this program ('seventeen plus four is twenty-one.'), different ones to train, to "
            "choose the epoch and to test.",
        ],
    )


def _table(task: str, arms: Mapping[str, Sequence[Result]], scores: Mapping[str, str]) -> Table:
    rows = []
    for arm, parts in arms.items():
        cells = [arm]
        for score in scores:
            mean, error = mean_and_error([part["scores"][score] for part in parts])
            cells.append(f"{mean:.4g} ({error:.2g})")
        rows.append(cells)
    return Table(
        f"{task}: mean and standard error over seeds.", ["rates", *scores.values()], rows, ours=[len(rows) - 1]
    )
