"""A regression on a few points that trains while somebody moves them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import TypedDict

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import split_gaussian
from gumdrop.layers import ConcreteDropout, HomoscedasticNoise
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.rates import dropout_rates, parameter_groups
from gumdrop.objective.elbo import negative_elbo
from gumdrop.objective.likelihoods import gaussian_nll
from gumdrop.prediction import predict_regression
from gumdrop.views.explore.messages import EXTENT, Message, Pause, Points, Restart, Settings

__all__ = ["Frame", "Session"]

HIDDEN = 64
NOISE_VARIANCE, NOISE_STRENGTH = 0.04, 100.0
"""Mode and shape of the prior on the noise: so few points would else be taken for exact, and all rates go to 0."""
ROWS = 128
"""Rows of a step, to which the points are repeated: each row has a mask of its own, so the gradient is quieter."""
LR, RATE_LR = 4e-3, 2e-3
SETTLED = 4000
"""Steps after the last change before training rests."""
DRAWN, AVERAGED = 8, 40


class Frame(TypedDict):
    """The posterior at one moment, in numbers for JSON."""

    mean: list[float]
    """Predictive mean on the grid."""
    epistemic: list[float]
    """Standard deviation of the drawn functions on the grid."""
    aleatoric: list[float]
    """Standard deviation of the noise on the grid."""
    draws: list[list[float]]
    """Some of the drawn functions, on the grid."""
    rates: dict[str, float]
    """Drop probability of each site."""
    losses: dict[str, float]
    """In nats per datum; none without points."""
    steps: int
    state: str


class Session:
    """The network, the points and the settings of one visitor. Same seed and same requests, same frames.

    Nothing here touches torch's global random state, but it is used and put back: one thread at a time may train.

    Args:
        seed: Seed of weights and masks.
        grid: Number of places at which functions are evaluated.
    """

    def __init__(self, *, seed: int = 0, grid: int = 121) -> None:
        self.settings = Settings()
        self.paused = False
        self.points: tuple[tuple[float, float], ...] = ()
        self.grid = torch.linspace(-EXTENT, EXTENT, grid).unsqueeze(1)
        self._seed = seed
        self._restart()

    def _restart(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            self.model = _network()
            self._random_state = torch.get_rng_state()
        groups = parameter_groups(self.model, rate_lr=RATE_LR, weight_decay=0.0)
        self._optimizer = torch.optim.AdamW(groups, lr=LR, fused=True)
        self._peaks = [group["lr"] for group in self._optimizer.param_groups]
        self.steps = self._since_change = 0
        self._losses: dict[str, float] = {}
        self._use_settings()

    @property
    def state(self) -> str:
        """``"empty"`` without points, ``"paused"``, ``"settled"`` or ``"training"``."""
        if not self.points:
            return "empty"
        if self.paused:
            return "paused"
        return "settled" if self._since_change >= SETTLED else "training"

    def apply(self, message: Message) -> None:
        """Do what a visitor asked.

        Args:
            message: A checked message.
        """
        if isinstance(message, Pause):
            self.paused = message.paused
            return
        self._since_change = 0
        if isinstance(message, Points):
            self.points = message.points
        elif isinstance(message, Settings):
            self.settings = message
            self._use_settings()
        else:
            assert isinstance(message, Restart)
            self._seed += 1
            self._restart()

    def _use_settings(self) -> None:
        for site in self._sites():
            site.temperature = self.settings.temperature
            site.scaled_logit.requires_grad_(self.settings.learned)
            if not self.settings.learned:
                site.start_at(self.settings.p)
                site.scaled_logit.grad = None

    def _sites(self) -> Iterator[ConcreteDropout]:
        return (module for module in self.model.modules() if isinstance(module, ConcreteDropout))

    def advance(self, seconds: float) -> None:
        """Train for about so long; do nothing where there is nothing to train.

        Args:
            seconds: Time to use.
        """
        end = time.monotonic() + seconds
        while self.state == "training" and time.monotonic() < end:
            self.train(5)

    def train(self, steps: int) -> None:
        """Take steps down the gradient of the negative ELBO of all points.

        Args:
            steps: Number of steps.
        """
        if not self.points or steps < 1:
            return
        x, y = self._batch()
        num_data = max(1, round(self.settings.weight * len(self.points)))
        with self._own_randomness():
            self.model.train()
            for _ in range(steps):
                self._slow_down()
                nll = gaussian_nll(*split_gaussian(self.model(x)), y).mean()
                loss = negative_elbo(nll, self.model, num_data=num_data, lengthscale=self.settings.lengthscale)
                self._optimizer.zero_grad()
                loss.backward()
                self._optimizer.step()
                self.steps += 1
                self._since_change += 1
            self._losses = {"nll": loss.nll.item(), "kl": loss.kl.item()}

    def _batch(self) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(self.points).repeat(max(1, ROWS // len(self.points)), 1)
        return rows[:, :1], rows[:, 1:]

    def _slow_down(self) -> None:
        """Smaller steps the longer nothing has changed, so that the picture comes to rest."""
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak / (1 + self._since_change / 800)

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random_state)
            yield
            self._random_state = torch.get_rng_state()

    def frame(self) -> Frame:
        """Picture the posterior now.

        Returns:
            What there is to show.
        """
        # The same masks in every frame: the draws then move with the posterior and do not flicker.
        prediction = predict_regression(self.model, self.grid, num_samples=AVERAGED, seed=self._seed)
        assert prediction.draw_means is not None
        return {
            "mean": _rounded(prediction.mean),
            "epistemic": _rounded(prediction.epistemic.sqrt()),
            "aleatoric": _rounded(prediction.aleatoric.sqrt()),
            "draws": [_rounded(draw) for draw in prediction.draw_means[:DRAWN]],
            "rates": {name: round(float(p), 4) for name, p in dropout_rates(self.model).items()},
            "losses": {name: round(value, 4) for name, value in self._losses.items() if self.points},
            "steps": self.steps,
            "state": self.state,
        }


def _network() -> nn.Sequential:
    """Build the network; its one input is never dropped, since without it nothing is left."""
    first = nn.Linear(1, HIDDEN)
    nn.init.uniform_(first.bias, -2.0, 2.0)  # so that the bends of the function lie all over the frame
    prior = (NOISE_STRENGTH, NOISE_STRENGTH * NOISE_VARIANCE)
    noise = HomoscedasticNoise(1, log_variance=math.log(NOISE_VARIANCE), gamma_prior=prior)
    hidden = nn.Linear(HIDDEN, HIDDEN)
    network = nn.Sequential(first, nn.ReLU(), hidden, nn.ReLU(), nn.Linear(HIDDEN, 1), noise)
    return learn_dropout(network, p=0.2, exclude=["0"])


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 3) for value in values.flatten().tolist()]
