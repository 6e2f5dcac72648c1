"""How training went: the loss, and the learned rates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.report.rows import number, percent
from gumdrop.views.svg import COLOURS, TIPS, svg

__all__ = ["RatesView", "TrainingView", "rates_view", "training_view"]


@dataclass(frozen=True)
class Site:
    """The learned rate of a layer."""

    label: str
    """What a reader calls the layer."""
    p: float
    """Mean over the networks."""
    least: float | None
    """Minimum; None where the results do not tell."""
    most: float | None
    """Maximum."""
    colour: str
    """Its colour in the figure."""


@dataclass(frozen=True)
class RatesView:
    """The learned rate of each layer, and how it got there."""

    sites: list[Site]
    """The layers."""
    svg: Markup | None = None
    """The figure, where there is a history."""
    kept_other: bool = False
    """Whether what was kept differs from the ends of the lines."""


@dataclass(frozen=True)
class TrainingView:
    """The loss over training, and when it was least."""

    svg: Markup
    """The figure."""
    epochs: int
    """How many there were."""
    best: int | None = None
    """The epoch of the lowest loss on held-out rows; None where they were not measured."""
    least: float = math.nan
    """That loss."""
    last: float = math.nan
    """The loss at the end."""
    unlearned: bool = False
    """Whether the loss on training rows rose after it, too."""


def rates_view(results: FitResults) -> RatesView:
    """The learned rate of each layer, and how it got there."""
    history = results.history
    sites = [
        Site(rate.label, rate.p, rate.least, rate.most, COLOURS.get(c, c))
        for rate, c in zip(results.rates, plots.site_colours(len(results.rates)), strict=True)
    ]
    if not sites or not history:
        return RatesView(sites)
    traces = {rate.site: [epoch.rates.get(rate.site) for epoch in history] for rate in results.rates}
    epochs = [epoch.epoch for epoch in history]
    ax = plots.rates_over_training(
        epochs, {site: np.array(trace, float) for site, trace in traces.items()}, legend=False
    )
    tips = [
        (epochs[i], p, f"{site.label}, epoch {epochs[i]}: {percent(p)}")
        for site, trace in zip(sites[:8], traces.values(), strict=False)
        for i in plots.evenly(len(epochs), TIPS)
        if (p := trace[i]) is not None
    ]
    last = [trace[-1] for trace in traces.values()]
    kept_other = any(p is not None and abs(site.p - p) > 0.005 for site, p in zip(sites, last, strict=True))
    return RatesView(sites, svg(ax, "rates", "Learned dropout rate of each layer over training", tips), kept_other)


def training_view(results: FitResults) -> TrainingView | None:
    """The loss over training, and when it was least."""
    history = results.history
    if not history:
        return None
    epochs, nll, kl, held = (
        np.array([getattr(step, name) for step in history], dtype=float)
        for name in ("epoch", "nll", "kl", "validation_nll")
    )
    ax = plots.training_curve(epochs, nll, kl=kl, validation_nll=held)
    low, high = ax.get_ylim()
    tips = [
        (epochs[i], values[i], f"epoch {epochs[i]:.0f}, {name}: {number(values[i])} nats per row")
        for name, values in (("training rows", nll), ("held-out rows", held), ("penalty", kl))
        for i in plots.evenly(len(epochs), TIPS)
        if low <= values[i] <= high
    ]
    picture = svg(ax, "training", "Loss over training", tips)
    known = np.flatnonzero(np.isfinite(held))
    if not known.size:
        return TrainingView(picture, len(history))
    window = 1 + known.size // 20  # one lucky epoch is not the best one
    smooth = np.convolve(held[known], np.full(window, 1 / window), "valid")
    best = known[smooth.argmin() + window // 2]
    unlearned = bool(nll[-1] > nll[best] + 0.05)
    return TrainingView(picture, len(history), int(epochs[best]), float(smooth.min()), float(smooth[-1]), unlearned)
