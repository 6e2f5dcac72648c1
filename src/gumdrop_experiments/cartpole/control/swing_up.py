"""The cart-pole swing-up: motion of a uniform rod on a cart, a Gymnasium environment, its pictures, and a film.

A state is (x, v, theta, omega): position and speed of the cart in m and m/s, angle of the pole from upright in rad,
counted on over full turns, and its rate in rad/s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from gumdrop.machine.files import replacing
from gumdrop.views import plots
from gumdrop_experiments.harness import Plain

WIDTH, HEIGHT, FINER = 480, 300, 3
METRE = 140.0
"""Pixels."""
INK, CART, POLE, FORCE, GOAL, PAPER = "#23262b", "#0072b2", "#d55e00", "#b0609a", "#009e73", "#ffffff"
SECONDS = 0.1
HORIZON = 25
MAX_FORCE = 10.0
START = (0.0, 0.0, np.pi, 0.0)
START_STD = 0.02
LARGEST = float(np.finfo(np.float32).max)
State = NDArray[np.float64]
FRAMES_PER_STEP = 2
LAST_MILLISECONDS = 1500
"""How long the last moment stands."""


@dataclass(frozen=True, kw_only=True)
class CartPole:
    r"""A cart on a rail with a uniform rod on a hinge, after Deisenroth & Rasmussen 2011 (PILCO).

    With masses :math:`M, m`, length :math:`l`, friction :math:`b` of the cart and force :math:`u`,

    .. math::
        \left(M + m - \tfrac34 m \cos^2\theta\right) \dot v &= u - b v + \tfrac12 m l \omega^2 \sin\theta
            - \tfrac34 m g \sin\theta \cos\theta \\
        \dot\omega &= \tfrac{3}{2 l} \left(g \sin\theta - \dot v \cos\theta\right)

    Example:
        >>> cart_pole = CartPole()
        >>> hanging = torch.tensor([0.0, 0.0, torch.pi, 0.0], dtype=torch.float64)
        >>> cart_pole.advance(hanging, torch.tensor(1.0), seconds=0.1)[0] > 0
        tensor(True)
    """

    cart_mass: float = 0.5
    """In kg."""
    pole_mass: float = 0.5
    """In kg."""
    length: float = 0.6
    """Length of the pole, in m."""
    friction: float = 0.1
    """Friction between cart and rail, in N s/m."""
    gravity: float = 9.82
    """In m/s²."""

    def derivative(self, state: Tensor, force: Tensor) -> Tensor:
        """Evaluate the equations of motion: the rate of change of states (..., 4) under forces (...,) in N."""
        _, v, theta, omega = state.unbind(-1)
        sin, cos = theta.sin(), theta.cos()
        push = force - self.friction * v + 0.5 * self.pole_mass * self.length * omega.square() * sin
        inertia = self.cart_mass + self.pole_mass - 0.75 * self.pole_mass * cos.square()
        acceleration = (push - 0.75 * self.pole_mass * self.gravity * sin * cos) / inertia
        angular = 1.5 / self.length * (self.gravity * sin - acceleration * cos)
        return torch.stack([v, acceleration, omega, angular], dim=-1)

    def advance(self, state: Tensor, force: Tensor, *, seconds: float, substeps: int = 10) -> Tensor:
        """Follow the motion of states (..., 4) under a constant force, by classical Runge-Kutta steps."""
        h = seconds / substeps
        for _ in range(substeps):
            k1 = self.derivative(state, force)
            k2 = self.derivative(state + h / 2 * k1, force)
            k3 = self.derivative(state + h / 2 * k2, force)
            k4 = self.derivative(state + h * k3, force)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return state


def tip_distance(state: Tensor) -> Tensor:
    """Distance in m of the pole's tip from where it is to balance, upright above the middle of the rail."""
    return torch.hypot(*_from_the_goal(state))


def tip_reward(state: Tensor, *, width: float = 0.25) -> Tensor:
    """One minus the saturating cost of Deisenroth & Rasmussen 2011: exp(-distance² / (2 width²))."""
    right, up = _from_the_goal(state)
    return torch.exp(-(right.square() + up.square()) / (2 * width**2))


def _from_the_goal(state: Tensor) -> tuple[Tensor, Tensor]:
    x, _, theta, _ = state.unbind(-1)
    return x + CartPole.length * theta.sin(), CartPole.length * (theta.cos() - 1)


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
    colour = CART if inside else "#9ecae1"
    pen.rounded_rectangle([at(x - 0.15, 0.07), at(x + 0.15, -0.07)], radius=5 * FINER, fill=colour)
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


class SwingUp(gymnasium.Env[State, NDArray[np.float32]]):
    """Swing a hanging pole up and balance it, by pushing the cart that it hangs on.

    The setting of DeepPILCO (Gal, McAllister & Rasmussen 2016): 25 steps of 0.1 s, a force of at most 10 N that is
    constant over a step, and a start at rest with the pole down, up to Gaussian noise of SD 0.02. It is registered as
    ``gumdrop/CartPoleSwingUp-v0``, where an episode is cut after 25 steps; it never ends otherwise.

    Observation: (x, v, theta, omega), see `cart_pole`; theta is 0 upright and pi at the start.
    Action: the force as a share of 10 N, shape (1,); clipped to [-1, 1].
    Reward: exp(-d² / (2 · 0.25²)) for a tip that is d metres from its goal after the step, so at most 25 in all.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": round(1 / SECONDS)}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"`render_mode` must be 'rgb_array' or None, got {render_mode!r}")
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-LARGEST, LARGEST, (4,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.cart_pole = CartPole()
        self.state = torch.tensor(START, dtype=torch.float64)
        self.force = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[State, dict[str, Any]]:
        """Hang the pole at rest, up to a little noise."""
        super().reset(seed=seed)
        noise = START_STD * self.np_random.standard_normal(4)
        self.state = torch.from_numpy(np.asarray(START) + noise)
        self.force = 0.0
        return self.state.numpy().copy(), self._information()

    def step(self, action: NDArray[np.float32]) -> tuple[State, float, bool, bool, dict[str, Any]]:
        """Push for 0.1 s."""
        self.force = MAX_FORCE * float(np.clip(np.asarray(action, dtype=np.float64).reshape(()), -1.0, 1.0))
        force = torch.tensor(self.force, dtype=torch.float64)
        self.state = self.cart_pole.advance(self.state, force, seconds=SECONDS)
        return self.state.numpy().copy(), float(tip_reward(self.state)), False, False, self._information()

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the cart, the pole, the force and the goal; None without a render mode."""
        if self.render_mode is None:
            return None
        return draw_cart_pole(self.state.tolist(), self.force, max_force=MAX_FORCE)

    def _information(self) -> dict[str, Any]:
        return {"distance": float(tip_distance(self.state))}


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
        panels = [np.asarray(Image.fromarray(draw_cart_pole(*moment)).resize((320, 200))) for moment in moments]
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
        now, force = (torch.tensor(value, dtype=torch.float64) for value in (state, MAX_FORCE * action))
        for share in range(FRAMES_PER_STEP):
            between = cart_pole.advance(now, force, seconds=SECONDS * share / FRAMES_PER_STEP)
            moments.append((between.tolist(), float(force)))
    return [*moments, (record["states"][-1], 0.0)]


def _titled(picture: NDArray[np.uint8], titles: Sequence[str]) -> Image.Image:
    image = Image.fromarray(picture)
    pen, width = ImageDraw.Draw(image), image.width // len(titles)
    for i, title in enumerate(titles):
        pen.text((i * width + 10, 6), title, fill=plots.INK, font=ImageFont.load_default(15))
        if i:
            pen.line([(i * width, 0), (i * width, image.height)], fill="#e3e5e8", width=2)
    return image
