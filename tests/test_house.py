"""Files and bodies stay short."""

from builders import house


def test_no_file_is_long():
    assert house.long_files(house.LIBRARY, house.EXPERIMENTS) == []


def test_options_are_read():
    """But those that the command line takes out before."""
    unread = ["src/gumdrop/cli/fit.py:fit (config)", "src/gumdrop/cli/reproduce.py:_experiments (list_)"]
    assert house.unread_options(house.LIBRARY, house.EXPERIMENTS) == unread


def test_no_body_is_long():
    assert house.long_bodies(house.LIBRARY, house.EXPERIMENTS) == []
