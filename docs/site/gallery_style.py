"""How figures of the gallery look, and what each example starts from."""

from typing import Any

import matplotlib as mpl
import torch

STYLE = {
    "figure.figsize": (7.2, 3.6),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "font.size": 10,
}


def reset(gallery_conf: dict[str, Any], script: str) -> None:
    """Set the style, one thread and the seed in front of each example."""
    mpl.rcParams.update(mpl.rcParamsDefault)
    mpl.use("agg")
    mpl.rcParams.update(STYLE)
    torch.set_num_threads(1)
    torch.manual_seed(0)
