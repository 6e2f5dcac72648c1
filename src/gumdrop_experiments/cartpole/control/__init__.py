"""Learn to control from few trials: a model that knows what it has not seen, and a policy improved inside it.

The environment is registered with Gymnasium when this package is imported, as ``gumdrop/CartPoleSwingUp-v0``.
"""

import gymnasium

from gumdrop_experiments.cartpole.control.swing_up import HORIZON, CartPole, SwingUp, tip_distance, tip_reward

__all__ = ["CartPole", "SwingUp", "tip_distance", "tip_reward"]

gymnasium.register(
    "gumdrop/CartPoleSwingUp-v0",
    entry_point="gumdrop_experiments.cartpole.control.swing_up:SwingUp",
    max_episode_steps=HORIZON,
)
