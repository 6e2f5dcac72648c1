"""How training went: the loss, and the learned rates."""

import numpy as np

from gumdrop.layers.site import GONE
from gumdrop.machine.picking import evenly
from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.html import number, percent
from gumdrop.views.svg import COLOURS, TIPS, svg

FLAT = 0.02
"""Change of a rate over the training, below which its curve says no more than its end."""


def rates_view(results: FitResults) -> dict[str, object]:
    """The learned rate of each layer, whether any is left, and how they got there, unless to 0 or along a line."""
    history = results.history
    sites = [
        {**vars(rate), "colour": COLOURS.get(c, c)}
        for rate, c in zip(results.rates, plots.site_colours(len(results.rates)), strict=True)
    ]
    left = any((rate.p if rate.most is None else rate.most) >= GONE for rate in results.rates)
    traces = {rate.site: np.array([e.rates.get(rate.site) for e in history], dtype=float) for rate in results.rates}
    flat = all(np.nanmax(trace) - np.nanmin(trace) < FLAT for trace in traces.values()) if history else True
    if flat or not left:
        return {"sites": sites, "left": left, "svg": None}
    epochs = [epoch.epoch for epoch in history]
    ax = plots.rates_over_training(epochs, traces, legend=False)
    tips = [
        (epochs[i], float(trace[i]), f"{rate.label}, epoch {epochs[i]}: {percent(float(trace[i]))}")
        for rate, trace in zip(results.rates[:8], traces.values(), strict=False)
        for i in evenly(len(epochs), TIPS)
        if np.isfinite(trace[i])
    ]
    return {"sites": sites, "left": left, "svg": svg(ax, "rates", "Learned dropout rate of each layer", tips)}


def training_view(results: FitResults) -> dict[str, object] | None:
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
        for i in evenly(len(epochs), TIPS)
        if low <= values[i] <= high
    ]
    picture = svg(ax, "training", "Loss over training", tips)
    known = np.flatnonzero(np.isfinite(held))
    if not known.size:
        return {"svg": picture, "epochs": len(history), "best": None}
    window = 1 + known.size // 20  # one lucky epoch is not the best one
    smooth = np.convolve(held[known], np.full(window, 1 / window), "valid")
    best = known[smooth.argmin() + window // 2]
    unlearned = bool(nll[-1] > nll[best] + 0.05)
    losses = {"best": int(epochs[best]), "least": float(smooth.min()), "last": float(smooth[-1])}
    return {"svg": picture, "epochs": len(history), **losses, "unlearned": unlearned}
