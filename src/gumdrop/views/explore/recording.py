"""Record a live session for the static page: ``python -m gumdrop.views.explore.recording`` writes it again."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from pathlib import Path
from typing import NamedTuple

import torch

from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop.machine.version import VERSION
from gumdrop.views.explore.messages import Points, Settings
from gumdrop.views.explore.session import Frame, Session
from gumdrop.views.explore.site import WEB

__all__ = ["Chapter", "record", "write_recording"]

SEED = 0
GRID = 61
UNIT = 0.01
"""Numbers are kept as multiples of this."""
DRAWS = 6
STEPS = (
    0,
    5,
    10,
    20,
    30,
    45,
    60,
    80,
    100,
    130,
    160,
    200,
    250,
    300,
    360,
    430,
    510,
    600,
    700,
    820,
    960,
    1120,
    1300,
    1500,
)
"""After how many steps of a chapter there is a frame."""


class Chapter(NamedTuple):
    """A part of the story: what the visitor changes, and what is to be seen."""

    title: str
    caption: str
    xs: tuple[float, ...]
    """Inputs of the points."""
    settings: Settings


GAP = (*(-2.6 + 0.2 * i for i in range(9)), *(0.6 + 0.2 * i for i in range(7)))
MORE = (*GAP, *(-0.8 + 0.2 * i for i in range(7)), 2.0, 2.2, 2.4, 2.6, 2.8)
STORY = (
    Chapter(
        "Few points",
        "16 points with gaps. The functions agree at the points and part ways beyond them.",
        GAP,
        Settings(),
    ),
    Chapter(
        "More points", "12 points more, in the gap and to the right: there the blue band shrinks.", MORE, Settings()
    ),
    Chapter(
        "Every point counts more",
        "The same points, each counted 30 times: the likelihood wins, the rates fall, and the functions agree.",
        MORE,
        Settings(weight=30.0),
    ),
    Chapter(
        "A fixed rate",
        "The rates fixed at 0.5: the network cannot become more sure, however much the points count.",
        MORE,
        Settings(weight=30.0, learned=False, p=0.5),
    ),
)


def record(story: tuple[Chapter, ...] = STORY, *, steps: tuple[int, ...] = STEPS) -> dict[str, object]:
    """Play a story with a live session, and note its frames.

    Args:
        story: Its chapters, one after the other on the same network.
        steps: After how many steps of each chapter to take a frame.

    Returns:
        What JSON can hold: chapters with points, settings and frames, and how they were made.
    """
    session = Session(seed=SEED, grid=GRID)
    chapters = []
    for title, caption, xs, settings in story:
        points = _points(xs)
        session.apply(settings)
        session.apply(Points(tuple(points)))
        frames, done = [], 0
        for step in steps:
            session.train(step - done)
            done = step
            frames.append(_small(session.frame()))
        chapter = {"title": title, "caption": caption, "points": points, "settings": dataclasses.asdict(settings)}
        chapters.append({**chapter, "frames": frames})
    made = {"command": "python -m gumdrop.views.explore.recording", "gumdrop": VERSION, "seed": SEED, **environment()}
    return {"made": made, "unit": UNIT, "chapters": chapters}


def _points(xs: tuple[float, ...]) -> list[tuple[float, float]]:
    """Noisy points of a wave; the noise of a place is the same in every chapter."""
    noise = {x: random.Random(f"{SEED} {x:.3f}").gauss(0, 0.12) for x in xs}
    return [(round(x, 3), round(math.sin(2 * x) + noise[x], 3)) for x in xs]


def _small(frame: Frame) -> dict[str, object]:
    return {
        "mean": _whole(frame["mean"]),
        "epistemic": _whole(frame["epistemic"]),
        "aleatoric": _whole(frame["aleatoric"]),
        "draws": [_whole(draw) for draw in frame["draws"][:DRAWS]],
        "rates": frame["rates"],
        "losses": frame["losses"],
        "steps": frame["steps"],
    }


def _whole(values: list[float]) -> list[int]:
    return [round(value / UNIT) for value in values]


def write_recording(path: Path = WEB / "recording.js") -> Path:
    """Record the story for the page.

    Args:
        path: The script to write.

    Returns:
        The same path.
    """
    text = json.dumps(record(), separators=(",", ":"), ensure_ascii=True)
    with replacing(path) as file:
        file.write(f"window.Gumdrop = window.Gumdrop || {{}};\nGumdrop.recording = {text};\n")
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = write_recording()
    print(f"{place.name}: {place.stat().st_size / 1000:.0f} kB")
