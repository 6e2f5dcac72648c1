"""Pictures of the cart and pole."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

WIDTH, HEIGHT, FINER = 480, 300, 3
METRE = 140.0
"""Pixels."""
INK, CART, POLE, FORCE, GOAL, PAPER = "#23262b", "#0072b2", "#d55e00", "#b0609a", "#009e73", "#ffffff"


def draw_cart_pole(
    state: Sequence[float], force: float = 0.0, *, max_force: float = 10.0, length: float = 0.6
) -> NDArray[np.uint8]:
    """Draw the cart on its rail, the pole, an arrow for the force, and a ring where the tip is to be.

    The picture shows the middle 3.4 m of the rail; a cart beyond it is drawn at the edge, paler. The arrow is as long
    as the cart at ``max_force``.

    Example:
        >>> draw_cart_pole((0.0, 0.0, 0.5, 0.0), 3.0).shape
        (300, 480, 3)
    """
    picture = Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER), PAPER)
    pen = ImageDraw.Draw(picture)
    edge = 0.5 * WIDTH / METRE - 0.15
    x, theta = float(np.clip(state[0], -edge, edge)), float(state[2])
    inside = abs(state[0]) <= edge

    def at(right: float, up: float) -> tuple[float, float]:
        """Pixel of a point, in metres from the middle of the rail."""
        return FINER * (WIDTH / 2 + METRE * right), FINER * (HEIGHT / 2 - METRE * up)

    tip = (x + length * np.sin(theta), length * np.cos(theta))
    pen.line([at(-3, 0), at(3, 0)], fill="#c9ccd1", width=2 * FINER)
    pen.circle(at(0.0, length), 0.07 * METRE * FINER, outline=GOAL, width=2 * FINER)
    pen.rounded_rectangle(
        [at(x - 0.15, 0.07), at(x + 0.15, -0.07)], radius=5 * FINER, fill=CART if inside else "#9ecae1"
    )
    pen.line([at(x, 0), at(*tip)], fill=POLE, width=8 * FINER)
    pen.circle(at(x, 0.0), 6 * FINER, fill=INK)
    pen.circle(at(*tip), 5 * FINER, fill=POLE)
    reach = 0.3 * force / max_force
    if abs(reach) > 0.01:
        start, end = at(x, -0.16), at(x + reach, -0.16)
        head = FINER * 7 * np.sign(reach)
        pen.line([start, end], fill=FORCE, width=4 * FINER)
        tail = end[0] - head
        pen.polygon([(end[0] + head, end[1]), (tail, end[1] - 7 * FINER), (tail, end[1] + 7 * FINER)], fill=FORCE)
    return np.asarray(picture.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))
