"""Gaussian processes and networks on the record, each judged by what came to pass."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gumdrop_experiments.co2.networks import ACTIVATIONS, Scale, network
from gumdrop_experiments.co2.processes import kernels, process
from gumdrop_experiments.co2.series import series
from gumdrop_experiments.co2.settings import Settings
from gumdrop_experiments.data.download import sha256_of
from gumdrop_experiments.data.mauna_loa import MAUNA_LOA, read_mauna_loa
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.numbers import rounded

__all__ = ["study"]

QUICK = Scale(width=128, epochs=60, num_samples=300)
RESTARTS, QUICK_RESTARTS = 2, 0
"""Further starts of the search for the parameters of a kernel."""


def study(settings: Settings, run: Run) -> Plain:
    """Extrapolate the record in each way."""
    place = data_folder(run.options, "co2", sources=MAUNA_LOA, files=[MAUNA_LOA[0].name]) / MAUNA_LOA[0].name
    data = series(read_mauna_loa(place))
    scale = QUICK if run.options.quick else Scale()
    scale = replace(
        scale, epochs=settings.epochs or scale.epochs, num_samples=settings.num_samples or scale.num_samples
    )
    restarts = QUICK_RESTARTS if run.options.quick else RESTARTS
    found = run.parts({f"gp-{name}": partial(process, data, name, restarts) for name in kernels(data)})
    return {
        "record": {"sha256": sha256_of(place), "scale_ppm": data.scale},
        "settings": {"width": scale.width, "depth": scale.depth, "epochs": scale.epochs, "draws": scale.num_samples},
        "data": {name: rounded(getattr(data, name)) for name in ("x", "y", "later_x", "later_y")},
        "processes": {name: found[f"gp-{name}"] for name in kernels(data)},
        "networks": _networks(run, partial(network, data, scale)),
    }


def _networks(run: Run, train: Callable[..., Plain]) -> Plain:
    """Train a network of each activation, with fixed and with learned rates."""

    def trained(name: str) -> Plain:
        activation, kind = name.split("-")
        options = {"seed": run.options.seed, "device": run.options.device, "checkpoint": run.checkpoint(name)}
        return train(activation, learned=kind == "learned", **options)

    names = [f"{activation}-{kind}" for kind, activation in itertools.product(("fixed", "learned"), ACTIVATIONS)]
    return run.parts({name: partial(trained, name) for name in names})
