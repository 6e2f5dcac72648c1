"""What a visitor may ask of a live session, and the check that nothing else gets through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["EXTENT", "MAX_POINTS", "Message", "MessageError", "Pause", "Points", "Restart", "Settings", "parse"]

EXTENT = 3.0
"""Points lie in a square from minus this to this."""
MAX_POINTS = 200


class MessageError(ValueError):
    """A message that cannot be used; the text says why."""


@dataclass(frozen=True)
class Points:
    """All observations, in place of those before."""

    points: tuple[tuple[float, float], ...]
    """Inputs and targets, each in [-EXTENT, EXTENT]; at most MAX_POINTS."""


@dataclass(frozen=True)
class Settings:
    """What the sliders say."""

    LIMITS: ClassVar[dict[str, tuple[float, float]]] = {
        "weight": (1.0, 100.0),
        "lengthscale": (0.05, 10.0),
        "temperature": (0.02, 2.0),
        "p": (0.01, 0.9),
    }
    """Minimum and maximum of each number."""

    weight: float = 6.0
    """Observations that each point stands for: N is this times the number of points."""
    lengthscale: float = 0.5
    """``l`` of the prior ``N(0, 1/l^2)`` on the weights."""
    temperature: float = 0.1
    """Temperature of the relaxed masks in training."""
    learned: bool = True
    """Whether the rates are learned, or all fixed at `p`."""
    p: float = 0.1
    """The rate where it is fixed."""


@dataclass(frozen=True)
class Restart:
    """Begin again with other untrained weights."""


@dataclass(frozen=True)
class Pause:
    """Stop training, or go on."""

    paused: bool


Message = Points | Settings | Restart | Pause


def parse(text: str | bytes) -> Message:
    """Read a message.

    Args:
        text: JSON with a ``type`` and the fields of that type, all of them and no others.

    Returns:
        The message, every number within its limits.

    Raises:
        MessageError: If it is anything else.

    Example:
        >>> parse('{"type": "points", "points": [[0.5, -1]]}')
        Points(points=((0.5, -1.0),))
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError("a message must be JSON") from error
    if not isinstance(content, dict):
        raise MessageError(f"a message must be an object, got {type(content).__name__}")
    kind = content.pop("type", None)
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise MessageError(f"`type` must be one of {', '.join(_FIELDS)}, got {_short(kind)}")
    if set(content) != fields:
        wanted = ", ".join(sorted(fields)) or "nothing else"
        raise MessageError(f"a message of type {kind} must have {wanted}, got {_short(sorted(content))}")
    if kind == "points":
        return Points(_points(content["points"]))
    if kind == "settings":
        numbers = {name: _number(name, content[name], *limits) for name, limits in Settings.LIMITS.items()}
        return Settings(learned=_flag("learned", content["learned"]), **numbers)
    return Restart() if kind == "restart" else Pause(_flag("paused", content["paused"]))


_FIELDS: dict[str, set[str]] = {
    "points": {"points"},
    "settings": {"learned", *Settings.LIMITS},
    "restart": set(),
    "pause": {"paused"},
}


def _points(value: Any) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, list) or len(value) > MAX_POINTS:
        count = f"{len(value)}" if isinstance(value, list) else type(value).__name__
        raise MessageError(f"`points` must be a list of at most {MAX_POINTS} pairs, got {count}")
    points = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise MessageError(f"each of `points` must be a pair of numbers, got {_short(pair)}")
        x, y = (_number(name, part, -EXTENT, EXTENT) for name, part in zip("xy", pair, strict=True))
        points.append((x, y))
    return tuple(points)


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageError(f"`{name}` must be a number, got {_short(value)}")
    if not low <= value <= high:  # neither does NaN
        raise MessageError(f"`{name}` must lie between {low:g} and {high:g}, got {_short(value)}")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise MessageError(f"`{name}` must be true or false, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
