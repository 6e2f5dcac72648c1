"""How training went: the loss, and the learned rates."""

import numpy as np

from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.html import number, percent
from gumdrop.views.svg import COLOURS, TIPS, svg


def rates_view(results: FitResults) -> dict[str, object]:
    """The learned rate of each layer, and how it got there."""
    history = results.history
    sites = [
        {**vars(rate), "colour": COLOURS.get(c, c)}
        for rate, c in zip(results.rates, plots.site_colours(len(results.rates)), strict=True)
    ]
    if not sites or not history:
        return {"sites": sites, "svg": None}
    traces = {rate.site: [epoch.rates.get(rate.site) for epoch in history] for rate in results.rates}
    epochs = [epoch.epoch for epoch in history]
    ax = plots.rates_over_training(
        epochs, {site: np.array(trace, float) for site, trace in traces.items()}, legend=False
    )
    tips = [
        (epochs[i], p, f"{rate.label}, epoch {epochs[i]}: {percent(p)}")
        for rate, trace in zip(results.rates[:8], traces.values(), strict=False)
        for i in plots.evenly(len(epochs), TIPS)
        if (p := trace[i]) is not None
    ]
    last = [trace[-1] for trace in traces.values()]
    kept_other = any(p is not None and abs(rate.p - p) > 0.005 for rate, p in zip(results.rates, last, strict=True))
    picture = svg(ax, "rates", "Learned dropout rate of each layer over training", tips)
    return {"sites": sites, "svg": picture, "kept_other": kept_other}


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
        for i in plots.evenly(len(epochs), TIPS)
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
