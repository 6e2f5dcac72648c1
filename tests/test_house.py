"""Files and bodies stay short, and what a reader must load to follow a thing does not grow."""

import pytest

from builders import house


@pytest.mark.parametrize(("use", "files", "lines"), [(house.CORE, 58, 8150), (house.OBJECTIVE, 34, 4000)])
def test_what_a_use_loads_does_not_grow(use: str, files: int, lines: int) -> None:
    """Wanted are 42 files and 6,600 lines to convert, train and predict, and 30 and 4,300 of the objective alone."""
    found = house.loaded(use)
    assert found <= (files, found[1]), "an import was added that this use does not need: import it where it is used"
    assert found[1] <= lines, "what everybody loads has grown; raise the number only with what it is for"


def test_no_file_is_long():
    assert house.long_files(house.LIBRARY, house.EXPERIMENTS) == []


def test_options_are_read():
    """But those that the command line takes out before."""
    unread = ["src/gumdrop/cli/fit.py:fit (config)", "src/gumdrop/cli/reproduce.py:_experiments (list_)"]
    assert house.unread_options(house.LIBRARY, house.EXPERIMENTS) == unread


def test_no_body_is_long():
    assert house.long_bodies(house.LIBRARY, house.EXPERIMENTS) == []
