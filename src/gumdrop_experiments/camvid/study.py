"""Networks trained in several ways on the same pictures, and what each says of the test pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates, fix_dropout, learn_dropout, set_strength
from gumdrop.prediction import ClassificationPrediction, predict_classification
from gumdrop.training import FitResult, fit
from gumdrop_experiments.camvid.crops import Crops, as_input
from gumdrop_experiments.camvid.likelihoods import noisy_log_probabilities, pixel_nll
from gumdrop_experiments.camvid.networks import NETWORKS
from gumdrop_experiments.camvid.scores import PixelScores
from gumdrop_experiments.camvid.settings import Settings
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, LabelledPictures, read_segnet
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.regularisers import Prior, prior_of
from gumdrop_experiments.harness.reproduce import WithPictures
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import part_name, rate_of

__all__ = ["VARIANTS", "NUM_CLASSES", "study"]

VARIANTS = ("none", "fixed 0.2", "learned", "learned, aleatoric head")
LR, MAX_NORM = 2e-3, 10.0
NOISE_DRAWS = 8
PICTURES_AT_ONCE = 8
SHOWN = 3
NUM_CLASSES = len(CAMVID_CLASSES)


def study(settings: Settings, run: Run) -> WithPictures:
    """Train and score the networks of every variant, and map the uncertainties of the first with learned rates."""
    folder = data_folder(run.options, "camvid", files=["train.txt", "test.txt"])
    size = (settings.height, settings.width)
    train, test = (read_segnet(folder, part, size=size, limit=settings.pictures) for part in ("train", "test"))
    scenes = _Scenes(run, settings, train, test)
    counts = dict(zip(VARIANTS, (settings.seeds, settings.seeds, max(settings.seeds, settings.fits), 1), strict=True))
    seeds = {variant: range(run.options.seed, run.options.seed + count) for variant, count in counts.items()}
    with limited_threads(settings.threads):
        calls = {
            part_name(variant, s): partial(_train_and_score, scenes, variant, s)
            for variant in VARIANTS
            for s in seeds[variant]
        }
        done = run.parts(calls)
        results = {variant: [done[part_name(variant, seed)] for seed in seeds[variant]] for variant in VARIANTS}
        return WithPictures(results, _maps(scenes, "learned", run.options.seed))


@dataclass(frozen=True)
class _Scenes:
    """What all networks share."""

    run: Run
    settings: Settings
    train: LabelledPictures
    test: LabelledPictures

    @property
    def pictures_per_crop(self) -> float:
        """A crop speaks for its whole picture: the prior is weighed against pictures, not against crops."""
        return self.train.labels[0].numel() / self.settings.crop**2

    def prior(self, variant: str) -> Prior:
        """Prior and strength of the dropout of a variant; published losses are means over the pixels of a picture."""
        given, labels = self.settings.regularisers, self.train.labels
        if given is None or not variant.startswith("learned"):
            return Prior(self.settings.lengthscale, 1.0)
        return prior_of(given, num_data=len(labels), scale=1 / labels[0].numel())


# One network


def _train_and_score(scenes: _Scenes, variant: str, seed: int) -> Plain:
    """Train a network, keep it in a file, and score the test pictures."""
    model = _build(scenes, variant, seed)
    result = _train(scenes, model, variant, seed)
    with replacing(_place(scenes, variant, seed), "wb") as file:
        torch.save(model.state_dict(), file)
    pixels = scenes.settings.crop**2
    return {
        "nll": [record.nll / scenes.pictures_per_crop / pixels for record in result.history],
        "rates": {name: [record.rates[name] for record in result.history] for name in dropout_rates(model)},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "draws": _scores(scenes, model, variant, seed, draws=True),
        "no_draws": _scores(scenes, model, variant, seed, draws=False),
    }


def _is_noisy(variant: str) -> bool:
    return "aleatoric" in variant


def _build(scenes: _Scenes, variant: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = NETWORKS[scenes.settings.network](NUM_CLASSES * (2 if _is_noisy(variant) else 1))
    # The picture itself is seen whole: its three colours are no features to do without.
    learn_dropout(model, p=rate_of(variant), exclude=["first"], report=lambda report: None)
    set_strength(model, scenes.prior(variant).strength)
    model = model if variant.startswith("learned") else fix_dropout(model)
    # Channels last is the quicker order for maps of many pixels and few channels.
    return model.to(scenes.run.options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def _train(scenes: _Scenes, model: nn.Module, variant: str, seed: int) -> FitResult:
    settings, scale = scenes.settings, scenes.pictures_per_crop

    def nll(output: Tensor, labels: Tensor) -> Tensor:
        if _is_noisy(variant):
            noise = torch.randn(NOISE_DRAWS, *output.chunk(2, dim=1)[0].shape, device=output.device)
            output = noisy_log_probabilities(output, noise)
        return scale * pixel_nll(output, labels)

    sampler = BatchSampler(RandomSampler(range(len(scenes.train.labels))), settings.batch_size, drop_last=False)
    return fit(
        model,
        DataLoader(Crops(scenes.train, settings.crop), sampler=sampler, batch_size=None),
        likelihood=nll,
        epochs=settings.epochs,
        lr=LR,
        max_norm=MAX_NORM,
        lengthscale=scenes.prior(variant).lengthscale,
        autocast=torch.bfloat16 if settings.bfloat16 else None,
        seed=seed,
        checkpoint=scenes.run.checkpoint(part_name(variant, seed)),
        progress=f"{variant}, seed {seed}",
    )


def _place(scenes: _Scenes, variant: str, seed: int) -> Path:
    return scenes.run.folder / f"{part_name(variant, seed)}.pt"


# What it says


def _predict(
    scenes: _Scenes, model: nn.Module, pictures: Tensor, variant: str, seed: int, *, draws: bool
) -> ClassificationPrediction:
    x = as_input(pictures).to(scenes.run.options.device)
    output: Callable[[Any], Tensor] | None = None
    if _is_noisy(variant):
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(NOISE_DRAWS, 1, NUM_CLASSES, 1, 1, generator=generator).to(x.device)
        output = partial(noisy_log_probabilities, noise=noise)
    if draws and variant != "none":
        return predict_classification(model, x, num_samples=scenes.settings.num_samples, seed=seed, output=output)
    with torch.inference_mode():
        log_p = torch.log_softmax(model(x) if output is None else output(model(x)), dim=1)
    return ClassificationPrediction.from_log_probabilities(log_p)


def _scores(scenes: _Scenes, model: nn.Module, variant: str, seed: int, *, draws: bool) -> Plain:
    scores, (pictures, labels) = PixelScores(NUM_CLASSES), scenes.test
    for some, truth in zip(pictures.split(PICTURES_AT_ONCE), labels.split(PICTURES_AT_ONCE), strict=True):
        scores.add(_predict(scenes, model, some, variant, seed, draws=draws), truth.to(scenes.run.options.device))
    return scores.result()


def _maps(scenes: _Scenes, variant: str, seed: int) -> Sequence[dict[str, Tensor]]:
    """Picture, truth, prediction and its uncertainties for some test pictures."""
    model, test = _build(scenes, variant, seed).eval(), scenes.test
    model.load_state_dict(torch.load(_place(scenes, variant, seed), weights_only=True))
    step = max(1, len(test.labels) // SHOWN)
    shown = []
    for i in range(step // 2, len(test.labels), step)[:SHOWN]:
        prediction = _predict(scenes, model, test.pictures[i : i + 1], variant, seed, draws=True)
        shown.append(
            {
                "picture": test.pictures[i],
                "truth": test.labels[i],
                "prediction": prediction.label[0].cpu(),
                "aleatoric": prediction.expected_entropy[0].cpu(),
                "epistemic": prediction.mutual_information[0].cpu(),
            }
        )
    return shown
