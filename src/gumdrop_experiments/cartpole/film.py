"""Trials as pictures of the cart: some moments side by side, and an animation."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gumdrop.machine.files import replacing
from gumdrop.views import plots
from gumdrop_experiments.cartpole.control import CartPole
from gumdrop_experiments.cartpole.control.swing_up import MAX_FORCE, SECONDS, draw_cart_pole
from gumdrop_experiments.harness import Plain

FRAMES_PER_STEP = 2
LAST_MILLISECONDS = 1500
"""How long the last moment stands."""


def film(record: Plain, *, count: int = 10) -> Figure:
    """Some moments of a trial, side by side."""
    drawing = Figure(figsize=(9, 2.7), layout="constrained")
    steps = np.linspace(0, len(record["actions"]), count).round().astype(int)
    for ax, step in zip(drawing.subplots(2, count // 2).flat, steps, strict=True):
        force = MAX_FORCE * record["actions"][min(step, len(record["actions"]) - 1)]
        ax.imshow(draw_cart_pole(record["states"][step], force))
        ax.set_title(f"{SECONDS * step:.1f} s", fontsize=plots.SIZE)
        ax.axis("off")
    return drawing


def animation(path: Path, run: Sequence[Plain]) -> None:
    """Write the first, the fifth and the last trial side by side as an animated GIF, at the speed at which they ran."""
    shown = sorted({1, min(5, len(run)), len(run)})
    frames = []
    for moments in zip(*(_moments(run[number - 1]) for number in shown), strict=True):
        panels = [
            np.asarray(Image.fromarray(draw_cart_pole(state, force)).resize((320, 200))) for state, force in moments
        ]
        frames.append(_titled(np.concatenate(panels, axis=1), [f"trial {number}" for number in shown]))
    some = np.concatenate([np.asarray(frame) for frame in frames[:: len(frames) // 3]])
    palette = Image.fromarray(some).quantize(128, dither=Image.Dither.NONE)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    milliseconds = round(1000 * SECONDS / FRAMES_PER_STEP)
    durations = [milliseconds] * (len(frames) - 1) + [LAST_MILLISECONDS]
    with replacing(path, "wb") as file:
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _moments(record: Plain) -> list[tuple[list[float], float]]:
    """States and forces of a trial, with some in between."""
    cart_pole, moments = CartPole(), []
    for state, action in zip(record["states"], record["actions"], strict=False):
        now, force = torch.tensor(state, dtype=torch.float64), torch.tensor(MAX_FORCE * action, dtype=torch.float64)
        for part in range(FRAMES_PER_STEP):
            seconds = SECONDS * part / FRAMES_PER_STEP
            moments.append((cart_pole.advance(now, force, seconds=seconds).tolist(), float(force)))
    return [*moments, (record["states"][-1], 0.0)]


def _titled(picture: NDArray[np.uint8], titles: Sequence[str]) -> Image.Image:
    image = Image.fromarray(picture)
    pen, width = ImageDraw.Draw(image), image.width // len(titles)
    for i, title in enumerate(titles):
        pen.text((i * width + 10, 6), title, fill=plots.INK, font=ImageFont.load_default(15))
        if i:
            pen.line([(i * width, 0), (i * width, image.height)], fill="#e3e5e8", width=2)
    return image
