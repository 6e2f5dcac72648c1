"""Networks trained in several ways on the same pictures, and what each says of the test pictures."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from gumdrop import fix_dropout, learn_dropout, predict_classification, sample
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import set_strength
from gumdrop.training import FitResult, fit
from gumdrop_experiments.camvid import ALL_VARIANTS, VARIANTS, Settings
from gumdrop_experiments.camvid.scores import (
    BY_PICTURE,
    PixelScores,
    calibration_by_averages,
    confusion,
    mean_iou,
    miou_by_draws,
    noisy_log_probabilities,
    normalised_by,
    pixel_nll,
)
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, Crops, LabelledPictures, as_input, read_camvid
from gumdrop_experiments.harness import Plain, Prior, Run, WithPictures, part_name, prior_of, rate_of
from gumdrop_experiments.networks.segmentation import NETWORKS
from gumdrop_experiments.shared import rates_over, save_weights, seeded

LR, MAX_NORM = 2e-3, 10.0
TRAIN, VALIDATION = "miou_train", "miou_validation"
"""Mean intersection over union after each epoch: of the crops, under masks, as they were trained on, and of the
validation pictures, without masks."""
AVERAGED = ("fixed 0.2", "learned")
"""Variants whose first network is also scored by other averages of its draws."""
NOISE_DRAWS = 8
ON_GPU = 16
"""Pictures at once on a GPU. On a CPU it is one: of a deep network its maps are as much as a cache holds."""
SHOWN = 3
NUM_CLASSES = len(CAMVID_CLASSES)


def study(settings: Settings, run: Run) -> WithPictures:
    """Train and score the networks of every variant, and map the uncertainties of the first with learned rates."""
    size = (settings.height, settings.width)
    scenes = _Scenes(run, settings, *read_camvid(run.options, size=size, limit=settings.pictures))
    chosen = settings.variants or VARIANTS
    seeds = run.options.seeds(settings.seeds)
    with limited_threads(settings.threads):
        done = run.product(partial(_train_and_score, scenes), chosen, seeds)
        inorder = [variant for variant in ALL_VARIANTS if variant in chosen]
        results = {variant: [done[variant, seed] for seed in seeds] for variant in inorder}
        averaged = [variant for variant in AVERAGED if variant in chosen]
        averages = run.parts({("averages", v): partial(_averages, scenes, v) for v in averaged})
        by_draws = {
            ("draws", v, s): partial(_by_draws, scenes, v, s)
            for v in (averaged if settings.draws else ())
            for s in seeds
        }
        for (_, variant, seed), scores in run.parts(by_draws).items():
            results[variant][seed - run.options.seed]["by_draws"] = scores
        for (_, variant), scores in averages.items():
            results[variant][0]["averages"] = scores
        return WithPictures(results, list(_maps(scenes, "learned", run.options.seed)) if "learned" in chosen else [])


@dataclass(frozen=True)
class _Scenes:
    """What all networks share."""

    run: Run
    settings: Settings
    train: LabelledPictures
    validation: LabelledPictures
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

    def batches(self, pictures: LabelledPictures, most: int = ON_GPU) -> Iterator[tuple[Tensor, Tensor]]:
        """Pictures and their true classes, as many at once as the device is best at."""
        count = 1 if torch.device(self.run.options.device).type == "cpu" else most
        return zip(pictures.pictures.split(count), pictures.labels.split(count), strict=True)

    def crops(self) -> DataLoader[tuple[Tensor, Tensor]]:
        """Batches to train on, in an order that torch's default generator draws."""
        sampler = BatchSampler(RandomSampler(range(len(self.train.labels))), self.settings.batch_size, drop_last=False)
        return DataLoader(Crops(self.train, self.settings.crop), sampler=sampler, batch_size=None)

    def autocast(self) -> AbstractContextManager[None]:
        """Compute a network in the type that it was trained in."""
        device = torch.device(self.run.options.device).type
        return torch.autocast(device, torch.bfloat16, enabled=self.settings.bfloat16)


def _train_and_score(scenes: _Scenes, variant: str, seed: int) -> Plain:
    model = _build(scenes, variant, seed)
    result = _train(scenes, model, variant, seed)
    save_weights(model, _place(scenes, variant, seed))
    pixels = scenes.settings.crop**2
    return {
        "nll": [record.nll / scenes.pictures_per_crop / pixels for record in result.history],
        **{name: [(record.measured or {}).get(name) for record in result.history] for name in (TRAIN, VALIDATION)},
        "rates": rates_over(result),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "draws": _scores(scenes, model, variant, seed, draws=True),
        "no_draws": _scores(scenes, model, variant, seed, draws=False),
    }


def _is_noisy(variant: str) -> bool:
    return "aleatoric" in variant


def _build(scenes: _Scenes, variant: str, seed: int) -> nn.Module:
    with seeded(seed):
        model = NETWORKS[scenes.settings.network](NUM_CLASSES * (2 if _is_noisy(variant) else 1))
    # The picture itself is seen whole: its three colours are no features to do without.
    learn_dropout(model, p=rate_of(variant), exclude=["first"], report=lambda report: None)
    set_strength(model, scenes.prior(variant).strength)
    model = model if variant.startswith("learned") else fix_dropout(model)
    # Channels last is the quicker order for maps of many pixels and few channels.
    return model.to(scenes.run.options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def _train(scenes: _Scenes, model: nn.Module, variant: str, seed: int) -> FitResult:
    settings, scale = scenes.settings, scenes.pictures_per_crop
    counts = torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=torch.float64)

    def nll(output: Tensor, labels: Tensor) -> Tensor:
        if _is_noisy(variant):
            noise = torch.randn(NOISE_DRAWS, *output.chunk(2, dim=1)[0].shape, device=output.device)
            output = noisy_log_probabilities(output, noise)
        counts.add_(confusion(labels, output.detach().argmax(1), NUM_CLASSES))
        return scale * pixel_nll(output, labels)

    def measure(model: nn.Module, epoch: int) -> dict[str, float]:
        scores = {TRAIN: mean_iou(counts)}
        counts.zero_()
        if epoch % settings.validate_every == 0 or epoch == settings.epochs:
            scores[VALIDATION] = _validation_miou(scenes, model, variant)
        return scores

    return fit(
        model,
        scenes.crops(),
        likelihood=nll,
        epochs=settings.epochs,
        lr=LR,
        max_norm=MAX_NORM,
        lengthscale=scenes.prior(variant).lengthscale,
        autocast=torch.bfloat16 if settings.bfloat16 else None,
        seed=seed,
        checkpoint=scenes.run.checkpoint(part_name(variant, seed)),
        progress=f"{variant}, seed {seed}",
        measure=measure,
    )


def _validation_miou(scenes: _Scenes, model: nn.Module, variant: str) -> float:
    counts = torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=torch.float64)
    for some, truth in scenes.batches(scenes.validation):
        counts += confusion(truth, _predict(scenes, model, some, variant, seed=0, draws=False).label.cpu(), NUM_CLASSES)
    return mean_iou(counts)


def _place(scenes: _Scenes, variant: str, seed: int) -> Path:
    return scenes.run.folder / f"{part_name(variant, seed)}.pt"


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
        with scenes.autocast():
            return predict_classification(model, x, num_samples=scenes.settings.num_samples, seed=seed, output=output)
    with torch.inference_mode(), scenes.autocast():
        logits = model(x) if output is None else output(model(x))
    return ClassificationPrediction.from_log_probabilities(torch.log_softmax(logits.float(), dim=1))


def _scores(scenes: _Scenes, model: nn.Module, variant: str, seed: int, *, draws: bool) -> Plain:
    scores = PixelScores(NUM_CLASSES)
    for some, truth in scenes.batches(scenes.test):
        scores.add(_predict(scenes, model, some, variant, seed, draws=draws), truth.to(scenes.run.options.device))
    return scores.result()


def _trained(scenes: _Scenes, variant: str, seed: int) -> nn.Module:
    model = _build(scenes, variant, seed).eval()
    model.load_state_dict(torch.load(_place(scenes, variant, seed), weights_only=True))
    return model


def _averages(scenes: _Scenes, variant: str) -> Plain:
    """Score the first network of a variant, without draws and with them, by several averages."""
    seed, settings = scenes.run.options.seed, scenes.settings
    model = _trained(scenes, variant, seed)

    def log_probabilities(*, draws: bool) -> Iterator[tuple[Tensor, Tensor]]:
        for pictures, truth in scenes.batches(scenes.test):
            x = as_input(pictures).to(scenes.run.options.device)
            with torch.no_grad(), scenes.autocast():
                logits = sample(model, x, num_samples=settings.num_samples, seed=seed) if draws else [model(x)]
                stacked = torch.stack([each.float() for each in logits])
            yield torch.log_softmax(stacked, dim=2).cpu(), truth

    return {how: calibration_by_averages(log_probabilities(draws=how == "draws")) for how in ("no_draws", "draws")}


def _by_draws(scenes: _Scenes, variant: str, seed: int) -> Plain:
    """Score a network with each kind of statistics of its normalisation."""
    settings, device = scenes.settings, scenes.run.options.device
    model = _trained(scenes, variant, seed)
    with seeded(seed), scenes.autocast():
        models = normalised_by(model, [x.to(device) for x, _ in scenes.crops()])
    scores = {}
    for name, normalised in models.items():
        batches = scenes.batches(scenes.test, most=1 if name == BY_PICTURE else ON_GPU)
        pictures = ((as_input(x).to(device), truth) for x, truth in batches)
        how: Plain = {"num_samples": settings.num_samples, "autocast": scenes.autocast}
        scores[name] = miou_by_draws(normalised, pictures, **how)
    return scores


def _maps(scenes: _Scenes, variant: str, seed: int) -> Iterator[dict[str, Tensor]]:
    model, test = _trained(scenes, variant, seed), scenes.test
    step = max(1, len(test.labels) // SHOWN)
    for i in range(step // 2, len(test.labels), step)[:SHOWN]:
        prediction = _predict(scenes, model, test.pictures[i : i + 1], variant, seed, draws=True)
        yield {
            "picture": test.pictures[i],
            "truth": test.labels[i],
            "prediction": prediction.label[0].cpu(),
            "aleatoric": prediction.expected_entropy[0].cpu(),
            "epistemic": prediction.mutual_information[0].cpu(),
        }
