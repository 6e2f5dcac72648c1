"""The page about the house shows the rooms that there are, and each room says what its files do."""

import runpy
from pathlib import Path

ROOMS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "rooms.py"))


def test_the_page_has_the_rooms() -> None:
    page = ROOMS["PAGE"].read_text(encoding="utf-8")
    assert ROOMS["BEGIN"] in page
    assert ROOMS["with_rooms"](page) == page, "a room has changed: run `make docs-figures`"


def test_a_room_says_what_it_is_for_in_a_line_and_what_its_files_do_in_a_paragraph() -> None:
    for room in ROOMS["ROOMS"]:
        purpose, files, *_ = ROOMS["docstring"](room).split("\n\n")
        assert len(purpose.splitlines()) == 1, room
        assert 1 <= len(files.splitlines()) <= 7, room
        assert ":math:" not in purpose + files, room
