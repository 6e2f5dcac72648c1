"""The figure of what a classifier saw in a picture."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gumdrop.attribution import Explanation
from gumdrop.attribution.pictures import Normalisation
from gumdrop.machine.files import replacing
from gumdrop.views import plots


def draw_explanation(
    explanation: Explanation, path: str | Path, *, normalisation: Normalisation = Normalisation()
) -> None:
    """Write a figure of one explained picture: the picture with its box, the masks, what suffices and what is left."""
    shown = {
        "picture": explanation.inputs,
        "suffices (SSR kept)": explanation.relevance("ssr"),
        "destroys (SDR dropped)": explanation.relevance("sdr"),
        "joint": explanation.joint,
        "with the sufficient alone": explanation.blended_ssr,
        "with the destroying dropped": explanation.blended_sdr,
    }
    figure = Figure(figsize=(8.4, 5.8), layout="constrained")
    axes = figure.subplots(2, 3).flat
    for ax, (title, values) in zip(axes, shown.items(), strict=True):
        is_mask = values.shape[1] == 1 and title in ("suffices (SSR kept)", "destroys (SDR dropped)", "joint")
        if is_mask:
            ax.imshow(values[0, 0].cpu().numpy(), cmap=plots.RELEVANCE, vmin=0, vmax=1)
        else:
            pixels = normalisation.undo(values)[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
            ax.imshow(pixels if pixels.shape[2] == 3 else np.repeat(pixels[..., :1], 3, axis=2))
        ax.set_title(title, fontsize=plots.SIZE, color=plots.INK)
        ax.axis("off")
    top, left, bottom, right = explanation.boxes()[0].tolist()
    if bottom:
        corner = (left - 0.5, top - 0.5)
        outline = Rectangle(corner, right - left, bottom - top, fill=False, color=plots.ORANGE, linewidth=1.6)
        figure.axes[0].add_patch(outline)
    with replacing(path, "wb") as file:
        figure.savefig(file, format="png", dpi=130, metadata={"Software": None})
