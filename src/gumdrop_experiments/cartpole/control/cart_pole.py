"""The cart and pole: equations of motion of a uniform rod that swings on a cart.

A state is (x, v, theta, omega): position and speed of the cart in m and m/s, angle of the pole from upright in rad,
counted on over full turns, and its rate in rad/s.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


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

    def energy(self, state: Tensor) -> Tensor:
        """Kinetic and potential energy of states (..., 4), in J; 0 at rest with the pole level."""
        _, v, theta, omega = state.unbind(-1)
        swing = 0.5 * self.length * omega
        kinetic = 0.5 * (self.cart_mass + self.pole_mass) * v.square() + self.pole_mass * v * swing * theta.cos()
        kinetic = kinetic + self.pole_mass * swing.square() * 2 / 3
        return kinetic + 0.5 * self.pole_mass * self.gravity * self.length * theta.cos()


def tip_distance(state: Tensor) -> Tensor:
    """Distance in m of the pole's tip from where it is to balance, upright above the middle of the rail."""
    right, up = _from_the_goal(state)
    return torch.hypot(right, up)


def tip_reward(state: Tensor, *, width: float = 0.25) -> Tensor:
    """One minus the saturating cost of Deisenroth & Rasmussen 2011: exp(-distance² / (2 width²))."""
    right, up = _from_the_goal(state)
    return torch.exp(-(right.square() + up.square()) / (2 * width**2))


def _from_the_goal(state: Tensor) -> tuple[Tensor, Tensor]:
    x, _, theta, _ = state.unbind(-1)
    return x + CartPole.length * theta.sin(), CartPole.length * (theta.cos() - 1)
