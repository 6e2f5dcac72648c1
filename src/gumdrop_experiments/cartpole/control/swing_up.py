"""The cart-pole swing-up as a Gymnasium environment."""

from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from gumdrop_experiments.cartpole.control.cart_pole import CartPole, tip_distance, tip_reward
from gumdrop_experiments.cartpole.control.drawing import draw_cart_pole

SECONDS = 0.1
HORIZON = 25
MAX_FORCE = 10.0
START = (0.0, 0.0, np.pi, 0.0)
START_STD = 0.02
LARGEST = float(np.finfo(np.float32).max)

State = NDArray[np.float64]


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
