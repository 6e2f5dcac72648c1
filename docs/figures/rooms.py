"""Draw the rooms of the house, and write what each is for into ``docs/architecture.md``.

A room is a folder of the library; an arrow says that one imports another, and is left out where a longer way says so
already. What a room is for is the first line of its docstring. Run with ``make docs-figures``; writes
``docs/results/rooms.png``.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from gumdrop.views import plots
from test_layering import MODULES, RANKS, imports_of, room_of

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "architecture.md"
ROOMS = [room for room in RANKS if room != "gumdrop"]
BEGIN, END = "<!-- rooms, from make docs-figures -->", "<!-- end of rooms -->"
WIDTH, HEIGHT = 1.7, 0.52
"""Of a box, in units of a place."""
INCHES = np.array([0.95, 0.82])
"""Of these units on the page, about."""
BENDS = (0.0, *(sign * size / 20 for size in range(1, 41) for sign in (1, -1)))


def short(room: str) -> str:
    """The name that a room goes by on the page."""
    return room.removeprefix("gumdrop.")


def arrows() -> dict[str, set[str]]:
    """Which rooms each imports, without those that it reaches through another one."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for target in imports_of(path.read_text(encoding="utf-8")):
            if target != "gumdrop" and room_of(target) != room_of(module):
                found[room_of(module)].add(room_of(target))

    def beyond(room: str) -> set[str]:
        return {far for near in found[room] for far in {near, *beyond(near)}}

    return {room: found[room] - {far for near in found[room] for far in beyond(near)} for room in ROOMS}


def clear_bend(start: tuple[float, float], end: tuple[float, float], boxes: set[tuple[float, float]]) -> float:
    """The smallest bend with which an arrow passes no box but those at its ends."""
    steps = np.linspace(0, 1, 60)[1:-1, None]
    first, last = np.array(start) * INCHES, np.array(end) * INCHES
    across, up = last - first
    ends = (start[0], start[1] + HEIGHT / 2), (end[0], end[1] - HEIGHT / 2)
    others = [box for box in boxes if not any(np.allclose(box, its) for its in ends)]
    for bend in BENDS:
        middle = (first + last) / 2 + bend * np.array([up, -across])
        path = ((1 - steps) ** 2 * first + 2 * steps * (1 - steps) * middle + steps**2 * last) / INCHES
        if not any((np.abs(path - box) < (WIDTH / 2 + 0.08, HEIGHT / 2 + 0.06)).all(1).any() for box in others):
            return bend
    return 0.0


def draw() -> Figure:
    """Rooms on their floors, and the arrows between them."""
    floors: dict[int, list[str]] = defaultdict(list)
    for room in ROOMS:
        floors[RANKS[room]].append(room)
    places = {
        room: (2.2 * (i - (len(rooms) - 1) / 2), float(rank))
        for rank, rooms in floors.items()
        for i, room in enumerate(rooms)
    }
    figure = Figure(figsize=(7.2, 7.6), layout="constrained")
    ax = figure.add_subplot()
    for room, targets in arrows().items():
        for target in sorted(targets):
            (x, y), (u, v) = places[room], places[target]
            bend = clear_bend((x, y - HEIGHT / 2), (u, v + HEIGHT / 2), set(places.values()))
            ax.add_patch(
                FancyArrowPatch(
                    (x, y - HEIGHT / 2),
                    (u, v + HEIGHT / 2),
                    arrowstyle="-|>",
                    mutation_scale=9,
                    color=plots.INK,
                    alpha=0.45,
                    connectionstyle=f"arc3,rad={bend}",
                )
            )
    for room, (x, y) in places.items():
        colour = plots.BLUE if RANKS[room] <= 2 else plots.INK
        box = FancyBboxPatch(
            (x - WIDTH / 2, y - HEIGHT / 2),
            WIDTH,
            HEIGHT,
            boxstyle="round,pad=0.02",
            facecolor="white",
            edgecolor=colour,
        )
        ax.add_patch(box)
        ax.text(x, y, short(room), ha="center", va="center", fontsize=9.5, color=colour)
    ax.set(xlim=(-3.4, 3.4), ylim=(-0.5, max(RANKS.values()) + 0.5))
    ax.set_yticks(sorted(floors), [f"rank {rank}" for rank in sorted(floors)], fontsize=8, color=plots.INK)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return figure


def docstring(room: str) -> str:
    """The docstring of a room's ``__init__.py``."""
    return ast.get_docstring(ast.parse(MODULES[room].read_text(encoding="utf-8"))) or ""


def table() -> str:
    """A row for each room, from the lowest rank to the highest."""
    rows = ["| room | rank | what it is for |", "|---|---|---|"]
    for room in ROOMS:
        place = MODULES[room].parent.relative_to(DOCS.parent).as_posix()
        purpose = docstring(room).partition("\n")[0]
        rows.append(f"| [`{short(room)}`](../{place}) | {RANKS[room]} | {purpose} |")
    return "\n".join(rows)


def with_rooms(page: str) -> str:
    """The page with the rooms as they are now between its marks."""
    new = f"{BEGIN}\n\n{table()}\n\n{END}"
    return re.sub(f"{BEGIN}.*{END}", lambda _: new, page, flags=re.S)


def main() -> None:
    """Write the figure, and the table into the page."""
    draw().savefig(DOCS / "results" / "rooms.png", dpi=150)
    PAGE.write_text(with_rooms(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
