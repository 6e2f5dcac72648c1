"""Segment street scenes (CamVid): learned, fixed and no dropout in an FC-DenseNet that shows where it is unsure."""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates, fix_dropout, learn_dropout
from gumdrop.prediction import ClassificationPrediction, predict_classification
from gumdrop.training import fit
from gumdrop_experiments.camvid import figures
from gumdrop_experiments.camvid.scores import PixelScores
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, VOID, LabelledPictures, read_segnet
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import part_name, rate_of
from gumdrop_experiments.networks.fc_densenet import DEPTHS, FCDenseNet
from gumdrop_experiments.networks.unet import UNet

__all__ = ["camvid", "noisy_log_probabilities"]

ARMS = ("none", "fixed 0.2", "learned", "learned, aleatoric head")
LR, MAX_NORM = 2e-3, 10.0
MEAN, STD = 0.4, 0.3
"""Roughly those of the pictures, in 0..1."""
NOISE_DRAWS = 8
SHOWN = 3
NUM_CLASSES = len(CAMVID_CLASSES)
NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    **{name: functools.partial(FCDenseNet, shape) for name, shape in DEPTHS.items()},
    "unet": UNet,
}

Result = dict[str, Any]


def camvid(
    options: RunOptions = RunOptions(),
    *,
    network: str = "small",
    height: int = 180,
    width: int = 240,
    crop: int = 96,
    epochs: int = 30,
    seeds: int = 3,
    fits: int = 3,
    batch_size: int = 4,
    num_samples: int = 10,
    pictures: int | None = None,
    lengthscale: float = 1.0,
    bfloat16: bool = False,
    threads: int | None = 1,
) -> None:
    """Segment the CamVid street scenes: no, fixed and learned dropout, with an aleatoric head beside.

    Args:
        options: The flags that all experiments share.
        network: FC-DenseNet 56, 67 or 103 as published, small for computers without a GPU, or unet, a plain U-Net.
        height: Pixels that pictures are brought to.
        width: The same for their width.
        crop: Height and width of the random crops to train with.
        epochs: Passes over the pictures, a crop of each.
        seeds: Networks trained in each way; with an aleatoric head, which is only shown beside them, one.
        fits: Networks trained with learned rates, to see whether these come out alike; at least ``seeds`` of them.
        batch_size: Crops in a batch.
        num_samples: Functions drawn for a prediction.
        pictures: Use so many pictures of each part; all if None.
        lengthscale: Of the prior.
        bfloat16: Train in bfloat16 where that is safe.
        threads: Of the processor; as torch would have it if None.

    Raises:
        ValueError: If a number is out of range or the network is unknown.
    """
    if network not in NETWORKS:
        raise ValueError(f"`network` must be one of {', '.join(NETWORKS)}, got {network!r}")
    numbers = (height, width, crop, epochs, seeds, fits, batch_size, num_samples, pictures or 1)
    if min(numbers) < 1 or crop > min(height, width):
        raise ValueError(
            f"all numbers must be at least 1 and `crop` at most `height` and `width`, got crop {crop}, {height} x "
            f"{width}, and {', '.join(map(str, numbers))}"
        )
    if options.quick:
        height, width, crop, epochs, num_samples = 90, 120, 64, min(epochs, 2), min(num_samples, 4)
        pictures, seeds, fits = min(pictures or 24, 24), 1, 1
    folder = data_folder(options, "camvid", files=["train.txt", "test.txt"])
    own = {"network": network, "height": height, "width": width, "crop": crop, "epochs": epochs, "seeds": seeds}
    own |= {"fits": fits, "batch_size": batch_size, "num_samples": num_samples, "pictures": pictures}
    own |= {"lengthscale": lengthscale, "bfloat16": bfloat16}
    with Run("camvid", options, own) as run, limited_threads(threads):
        parts = {part: read_segnet(folder, part, size=(height, width), limit=pictures) for part in ("train", "test")}
        study = _Study(run, parts, network, crop, epochs, batch_size, num_samples, lengthscale, bfloat16)
        counts = dict(zip(ARMS, (seeds, seeds, max(seeds, fits), 1), strict=True))
        wanted = [(arm, options.seed + i) for arm, count in counts.items() for i in range(count)]
        calls = {part_name(*which): functools.partial(study.train_and_score, *which) for which in wanted}
        done = run.parts(calls)
        results = {arm: [done[part_name(*which)] for which in wanted if which[0] == arm] for arm in ARMS}
        run.figure("camvid-curves", figures.curves(results))
        run.figure("camvid-rates", figures.rates(results))
        run.figure("camvid-calibration", figures.calibration(results))
        run.figure("camvid-classes", figures.class_calibration(results))
        run.figure("camvid-maps", figures.maps(study.maps("learned", options.seed)))
        run.finish(results, figures.page(results))


def pixel_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log likelihood of pictures: the sum over pixels that have a class, in nats, shape (N,)."""
    return F.cross_entropy(logits, labels.long(), ignore_index=VOID, reduction="none").flatten(1).sum(1)


def noisy_log_probabilities(output: Tensor, noise: Tensor) -> Tensor:
    """Log of the class probabilities, averaged over Gaussian noise on the logits.

    Args:
        output: Logits and the log variances of their noise, shape (N, 2 C, H, W).
        noise: Standard normal draws, shape (D, 1, C, 1, 1) or any that broadcasts to D times the logits.

    Returns:
        Shape (N, C, H, W).

    References:
        Kendall & Gal 2017 (arXiv:1703.04977), eq. 12.
    """
    logits, log_variance = output.chunk(2, dim=1)
    drawn = logits + noise * torch.exp(0.5 * log_variance)
    return torch.logsumexp(torch.log_softmax(drawn, dim=2), dim=0) - math.log(len(drawn))


class _Crops(Dataset[tuple[Tensor, Tensor]]):
    """Random crops, half of them mirrored, a batch at a time; torch's default generator draws them."""

    def __init__(self, pictures: LabelledPictures, size: int) -> None:
        self.pictures, self.size = pictures, size

    def __len__(self) -> int:
        return len(self.pictures.labels)

    def __getitem__(self, rows: Any) -> tuple[Tensor, Tensor]:
        images, labels = [], []
        for row in rows:
            height, width = self.pictures.labels[row].shape
            top = int(torch.randint(height - self.size + 1, ()))
            left = int(torch.randint(width - self.size + 1, ()))
            place = (..., slice(top, top + self.size), slice(left, left + self.size))
            image, label = self.pictures.pictures[row][place], self.pictures.labels[row][place]
            mirrored = bool(torch.rand(()) < 0.5)
            images.append(image.flip(-1) if mirrored else image)
            labels.append(label.flip(-1) if mirrored else label)
        return _as_input(torch.stack(images)), torch.stack(labels)


def _as_input(pictures: Tensor) -> Tensor:
    return (pictures.float() / 255 - MEAN) / STD


class _Study:
    """Networks trained in several ways on the same pictures."""

    def __init__(
        self,
        run: Run,
        parts: dict[str, LabelledPictures],
        network: str,
        crop: int,
        epochs: int,
        batch_size: int,
        num_samples: int,
        lengthscale: float,
        bfloat16: bool,
    ) -> None:
        self.run, self.parts, self.network, self.crop = run, parts, network, crop
        self.autocast = torch.bfloat16 if bfloat16 else None
        self.epochs, self.batch_size, self.num_samples, self.lengthscale = epochs, batch_size, num_samples, lengthscale
        picture = parts["train"].labels[0].numel()
        # A crop speaks for its whole picture: the prior is weighed against pictures, not against crops.
        self.pictures_per_crop = picture / crop**2

    def _network(self, arm: str, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = NETWORKS[self.network](NUM_CLASSES * (2 if "aleatoric" in arm else 1))
        # The picture itself is seen whole: its three colours are no features to do without.
        learn_dropout(model, p=rate_of(arm), exclude=["first"], report=lambda report: None)
        model = model if arm.startswith("learned") else fix_dropout(model)
        # Channels last is the quicker order for maps of many pixels and few channels.
        return model.to(self.run.options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def train_and_score(self, arm: str, seed: int) -> Result:
        """Train a network, keep it in a file, and score the test pictures."""
        model = self._network(arm, seed)
        is_noisy = "aleatoric" in arm

        def nll(output: Tensor, labels: Tensor) -> Tensor:
            if is_noisy:
                noise = torch.randn(NOISE_DRAWS, *output.chunk(2, dim=1)[0].shape, device=output.device)
                output = noisy_log_probabilities(output, noise)
            return self.pictures_per_crop * pixel_nll(output, labels)

        train = self.parts["train"]
        sampler = BatchSampler(RandomSampler(range(len(train.labels))), self.batch_size, drop_last=False)
        result = fit(
            model,
            DataLoader(_Crops(train, self.crop), sampler=sampler, batch_size=None),
            likelihood=nll,
            epochs=self.epochs,
            lr=LR,
            max_norm=MAX_NORM,
            lengthscale=self.lengthscale,
            autocast=self.autocast,
            seed=seed,
            checkpoint=self.run.checkpoint(part_name(arm, seed)),
            progress=f"{arm}, seed {seed}",
        )
        with replacing(self._place(arm, seed), "wb") as file:
            torch.save(model.state_dict(), file)
        return {
            "nll": [record.nll / self.pictures_per_crop / self.crop**2 for record in result.history],
            "rates": {name: [record.rates[name] for record in result.history] for name in dropout_rates(model)},
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "draws": self._scores(model, arm, seed, draws=True),
            "no_draws": self._scores(model, arm, seed, draws=False),
        }

    def _place(self, arm: str, seed: int) -> Path:
        return self.run.folder / f"{part_name(arm, seed)}.pt"

    def _predict(
        self, model: nn.Module, pictures: Tensor, arm: str, seed: int, *, draws: bool
    ) -> ClassificationPrediction:
        x = _as_input(pictures).to(self.run.options.device)
        output: Callable[[Any], Tensor] | None = None
        if "aleatoric" in arm:
            generator = torch.Generator().manual_seed(seed)
            noise = torch.randn(NOISE_DRAWS, 1, NUM_CLASSES, 1, 1, generator=generator).to(x.device)
            output = functools.partial(noisy_log_probabilities, noise=noise)
        if draws and arm != "none":
            return predict_classification(model, x, num_samples=self.num_samples, seed=seed, output=output)
        with torch.inference_mode():
            log_p = torch.log_softmax(model(x) if output is None else output(model(x)), dim=1)
        return ClassificationPrediction(log_p, torch.special.entr(log_p.exp()).sum(1))

    def _scores(self, model: nn.Module, arm: str, seed: int, *, draws: bool) -> Result:
        scores, test = PixelScores(NUM_CLASSES), self.parts["test"]
        for pictures, labels in zip(test.pictures.split(8), test.labels.split(8), strict=True):
            scores.add(self._predict(model, pictures, arm, seed, draws=draws), labels.to(self.run.options.device))
        return scores.result()

    def maps(self, arm: str, seed: int) -> Sequence[dict[str, Tensor]]:
        """Picture, truth, prediction and its doubts for some test pictures."""
        model = self._network(arm, seed).eval()
        model.load_state_dict(torch.load(self._place(arm, seed), weights_only=True))
        test = self.parts["test"]
        step = max(1, len(test.labels) // SHOWN)
        chosen = range(step // 2, len(test.labels), step)[:SHOWN]
        shown = []
        for i in chosen:
            prediction = self._predict(model, test.pictures[i : i + 1], arm, seed, draws=True)
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
