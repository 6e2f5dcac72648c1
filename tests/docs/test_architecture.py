"""The page about the house shows the signs that the rooms have."""

import runpy
from pathlib import Path

ROOMS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "rooms.py"))


def test_the_page_has_the_signs_of_the_rooms() -> None:
    page = ROOMS["PAGE"].read_text(encoding="utf-8")
    assert ROOMS["BEGIN"] in page
    assert ROOMS["with_signs"](page) == page, "a sign has changed: run `make docs-figures`"


def test_a_sign_is_short() -> None:
    for sign in ROOMS["signs"]().split("**[")[1:]:
        assert 2 <= len(sign.strip().splitlines()) <= 9, sign
        assert ":math:" not in sign
