"""The search for masks: gradients of log-odds through relaxed Bernoulli masks, for many inputs at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumdrop.attribution.infills import InfillCall, draw_infill
from gumdrop.attribution.masks import Layout, total_variation
from gumdrop.attribution.targets import Score, check_finite, rows_of, score_of, unchecked_call
from gumdrop.functional.masks import soft_keep
from gumdrop.functional.noise import uniform_noise


@dataclass(frozen=True, kw_only=True)
class FIDOSettings:
    """How masks are searched for."""

    iterations: int = 100
    """Steps of the optimiser."""
    num_samples: int = 8
    """Masks drawn for each input and step, of either kind."""
    temperature: float = 0.1
    """Of the relaxed Bernoulli masks."""
    l1: float = 4.0
    """Cost of two masks that cover everything, half for what SSR keeps and half for what SDR drops, in units of the
    evidence: what the score of the input is away from that of its infill, or 1 if that is more."""
    tv: float = 0.06
    """Cost of a straight border through the whole input, in either map, in the same unit. Where it is more than
    ``l1 / 2`` over the number of cells along a side, gaps of one cell are filled."""
    ramp: int = 5
    """Steps over which both costs rise to their full value."""
    lr: float = 0.1
    """Step size of Adam on the drop logits. There is no weight decay: it would pull every rate to 1/2."""
    patience: int | None = None
    """Stop the search for an input when its objective, averaged over this many steps, is no better than over as
    many before; all iterations if None."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("iterations", "num_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        for name in ("temperature", "lr"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}")
        for name in ("l1", "tv", "ramp"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must not be negative, got {getattr(self, name)}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"`patience` must be at least 1, got {self.patience}; None never stops early")


@dataclass(frozen=True)
class Task:
    """What is asked about some inputs: everything that does not change during the search."""

    inputs: Tensor
    infill: Tensor | InfillCall
    target: Tensor | None
    score: Tensor
    """Score of the inputs as they are, shape (N,)."""
    score_infill: Tensor
    """Score of the infill, of a random one of one draw, shape (N,)."""
    extra: tuple[Any, ...]
    """Further arguments of the model."""
    layout: Layout
    cells: tuple[int, ...]
    """Size of a mask before it is up-sampled."""

    def __getitem__(self, rows: Tensor) -> "Task":
        """The same about some of the inputs."""
        infill = rows_of(self.infill, rows)
        target, score, score_infill = (rows_of(value, rows) for value in (self.target, self.score, self.score_infill))
        extra = tuple(rows_of(value, rows) for value in self.extra)
        return Task(self.inputs[rows], infill, target, score, score_infill, extra, self.layout, self.cells)

    @property
    def evidence(self) -> Tensor:
        """How far the scores of input and infill are apart, at least 1, shape (N,)."""
        return (self.score - self.score_infill).abs().clamp(min=1)

    def fill(self, num_draws: int, generator: torch.Generator) -> Tensor:
        """What stands in for the inputs, shape (num_draws or 1, N, ...)."""
        if isinstance(self.infill, Tensor):
            return self.infill[None]
        draws = [draw_infill(self.infill, self.inputs, generator) for _ in range(num_draws)]
        return torch.stack(draws)


class Found(NamedTuple):
    """What a search found, for N inputs; the last dimension is that of the inputs."""

    p_logit: Tensor
    """Drop logits, shape (2, *cells, N), of SSR and SDR."""
    curves: Tensor
    """Mean scores under the masks of each step, shape (2, T, N); NaN after an early stop."""
    steps: Tensor
    """Steps taken, shape (N,)."""


def random_streams(seed: int) -> tuple[torch.Generator, torch.Generator]:
    """Generators for masks and infill: apart, so that an infill that draws more does not change the masks."""
    seeds = torch.randint(2**62, (2,), generator=torch.Generator().manual_seed(seed)).tolist()
    return torch.Generator().manual_seed(seeds[0]), torch.Generator().manual_seed(seeds[1])


class _Adam:
    """Adam on the logits of inputs that stop at different times."""

    def __init__(self, parameter: Tensor, lr: float) -> None:
        self._parameter, self._lr = parameter, lr
        self._first, self._second = torch.zeros_like(parameter), torch.zeros_like(parameter)

    def step(self, rows: Tensor, gradient: Tensor, number: int) -> None:
        """Go one step, the ``number``-th from 1, for the inputs in ``rows`` of dimension 1."""
        a, b = 0.9, 0.999
        first = self._first[:, rows].lerp(gradient, 1 - a)
        second = self._second[:, rows].lerp(gradient.square(), 1 - b)
        self._first[:, rows], self._second[:, rows] = first, second
        scale = (second / (1 - b**number)).sqrt().add_(1e-8)
        self._parameter[:, rows] -= self._lr / (1 - a**number) * first / scale


class Search:
    """The search for the masks of a group of inputs.

    The noise of a step is the same for each input and depends on the seed alone, so what is found for an input does
    not depend on the group that it is in.
    """

    def __init__(
        self, forward_func: Callable[..., Any], score: Score, settings: FIDOSettings, *, chunk_size: int
    ) -> None:
        self._forward_func, self._score, self._settings = forward_func, score, settings
        self._chunk_size = chunk_size
        self._finite: list[Tensor] = []
        """Whether each output was finite; looked at where the device is waited for in any case."""

    def __call__(self, task: Task, *, seed: int, rows: Tensor, advance: Callable[[], None]) -> Found:
        """Learn the maps of a group."""
        settings = self._settings
        noise = random_streams(seed)
        dtype = torch.promote_types(task.inputs.dtype, torch.float32)
        p_logit = torch.zeros(2, len(rows), *task.cells, dtype=dtype, device=task.inputs.device)
        curves = p_logit.new_full((2, settings.iterations, len(rows)), torch.nan)
        objective = p_logit.new_full((settings.iterations, len(rows)), torch.nan)
        adam = _Adam(p_logit, settings.lr)
        active, part = torch.arange(len(rows), device=p_logit.device), task
        for step in range(settings.iterations):
            if len(active):
                logits = p_logit[:, active]
                scores, slope = self._score_gradient(part, logits, *noise)
                if step == 0:
                    self._check_finite()
                    _check_varies(task, scores, slope, rows)
                cost, cost_slope = self._cost_gradient(part, logits, step)
                adam.step(active, slope + cost_slope, step + 1)
                curves[:, step, active] = scores.mean(dim=1).to(curves.dtype)
                objective[step, active] = (scores[1] - scores[0]).mean(dim=0).to(cost.dtype) + cost
                if self._may_stop(step) and (stopped := self._stale(objective[: step + 1, active])).any():
                    active = active[~stopped]
                    part = task[active]
            advance()
        self._check_finite()
        return Found(p_logit.movedim(1, -1), curves, objective.isfinite().sum(dim=0))

    def _score_gradient(
        self, task: Task, p_logit: Tensor, masks: torch.Generator, infills: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Scores under drawn masks, (2, num_samples, N), and the gradient of the mean of SDR's minus SSR's."""
        num_samples, count = self._settings.num_samples, len(task.inputs)
        shape = (2, num_samples, 1, *task.cells)
        noise = uniform_noise(shape, dtype=p_logit.dtype, device=p_logit.device, generator=masks)
        slope, scores = torch.zeros_like(p_logit), []
        for part in noise.split(max(1, self._chunk_size // (2 * count)), dim=1):
            fill = task.fill(part.shape[1], infills)
            with torch.enable_grad():
                logit = p_logit.detach().requires_grad_()
                result = self._masked_scores(task, logit, part, fill)
                slope += torch.autograd.grad((result[1] - result[0]).sum() / num_samples, logit)[0]
            scores.append(result.detach())
        return torch.cat(scores, dim=1), slope

    def _masked_scores(self, task: Task, p_logit: Tensor, noise: Tensor, fill: Tensor) -> Tensor:
        """Scores of inputs blended with their infill, in one call of the model, (2, draws, N)."""
        keep = soft_keep(p_logit[:, None], noise, temperature=self._settings.temperature)
        shape = keep.shape[:3]
        keep = task.layout.spread(keep.flatten(0, 2), task.layout.grid(task.inputs)).to(task.inputs.dtype)
        blended = torch.addcmul(fill, keep.unflatten(0, shape), task.inputs - fill).flatten(0, 2)
        rows = torch.arange(shape[2], device=keep.device).repeat(shape[0] * shape[1])
        output = unchecked_call(self._forward_func, blended, task.extra, rows)
        self._finite.append(output.isfinite().all())
        if not output.requires_grad:
            raise ValueError(
                "the output of `forward_func` has no gradient for its input; FIDO needs one, so leave out "
                "`detach`, `no_grad`, `argmax` and conversions to numpy"
            )
        return score_of(self._score, output, rows_of(task.target, rows)).unflatten(0, shape)

    def _cost_gradient(self, task: Task, p_logit: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """What area and ragged borders cost, (N,), and the gradient of that."""
        settings = self._settings
        with torch.enable_grad():
            logit = p_logit.detach().requires_grad_()
            ssr, sdr = torch.sigmoid(logit)
            cost = settings.l1 / 2 * (1 - ssr + sdr).flatten(1).mean(1)
            if task.layout.ordered:
                border = ssr[0].numel() ** (1 - 1 / ssr[0].ndim)  # cells along a straight one
                cost = cost + settings.tv / border * (total_variation(ssr) + total_variation(sdr))
            cost = cost * task.evidence.to(cost.dtype) * min(1.0, (step + 1) / max(1, settings.ramp))
            (slope,) = torch.autograd.grad(cost.sum(), logit)
        return cost.detach(), slope

    def _check_finite(self) -> None:
        """Refuse a model that has returned something else, and forget its outputs."""
        if self._finite:
            check_finite(torch.stack(self._finite))
        self._finite.clear()

    def _may_stop(self, step: int) -> bool:
        """Whether a search can end after a step; only then the device is waited for."""
        span = self._settings.patience
        return span is not None and step + 1 >= self._settings.ramp + 2 * span

    def _stale(self, objective: Tensor) -> Tensor:
        """Whether the objective of each input has stopped falling, given its course (steps, N)."""
        span = self._settings.patience
        assert span is not None
        return objective[-span:].mean(dim=0) >= objective[-2 * span : -span].mean(dim=0)


def _check_varies(task: Task, scores: Tensor, slope: Tensor, rows: Tensor) -> None:
    """Refuse inputs whose score stays as it is under every mask, and does not begin to move."""
    # Equal rows in batches of other sizes go through other kernels, so their scores agree only up to rounding; half
    # the digits leave room for that, in deep networks too.
    seen = torch.cat([scores.flatten(0, 1), task.score_infill[None]])
    room = torch.finfo(scores.dtype).eps ** 0.5 * task.score.abs().clamp(min=1)
    still = slope.abs().transpose(0, 1).flatten(1).sum(dim=1) <= torch.finfo(slope.dtype).eps ** 0.5
    constant = ((seen - task.score).abs() <= room).all(dim=0) & still
    if constant.any():
        raise ValueError(
            f"the output of `forward_func` is the same with and without what the masks drop, for inputs "
            f"{rows[constant].tolist()}: a constant model has no explanation, and an input that equals its infill "
            "needs another `infill`"
        )
