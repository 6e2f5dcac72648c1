"""Two Gaussian processes and four networks, each asked about the years that follow the record."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

from gumdrop_experiments.co2.networks import ACTIVATIONS, Scale, network
from gumdrop_experiments.co2.processes import kernels, process
from gumdrop_experiments.co2.record import series
from gumdrop_experiments.co2.settings import Settings
from gumdrop_experiments.data.download import sha256_of
from gumdrop_experiments.data.mauna_loa import MAUNA_LOA, read_mauna_loa
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.numbers import rounded

__all__ = ["study"]

FULL, QUICK = Scale(), Scale(width=128, epochs=60, num_samples=300)
RESTARTS, QUICK_RESTARTS = 2, 0
"""Starts of the search for the numbers in a kernel, beside the first."""


def study(settings: Settings, run: Run) -> dict[str, Any]:
    """Fit the processes, then the networks."""
    file = MAUNA_LOA[0].name
    place = data_folder(run.options, "co2", sources=MAUNA_LOA, files=[file]) / file
    data = series(read_mauna_loa(place))
    usual, restarts = (QUICK, QUICK_RESTARTS) if run.options.quick else (FULL, RESTARTS)
    epochs, num_samples = settings.epochs or usual.epochs, settings.num_samples or usual.num_samples
    scale = replace(usual, epochs=epochs, num_samples=num_samples)
    return {
        "record": {"sha256": sha256_of(place), "scale_ppm": data.scale},
        "settings": {
            "width": scale.width,
            "depth": scale.depth,
            "epochs": scale.epochs,
            "draws": scale.num_samples,
        },
        "data": {name: rounded(getattr(data, name)) for name in ("x", "y", "later_x", "later_y")},
        "processes": {
            kernel: run.part(f"gp-{kernel}", partial(process, data, kernel, restarts)) for kernel in kernels(data)
        },
        "networks": {
            f"{activation}-{kind}": run.part(
                f"{activation}-{kind}", partial(network, run, data, scale, activation, learned=kind == "learned")
            )
            for kind, activation in itertools.product(("fixed", "learned"), ACTIVATIONS)
        },
    }
