"""Files and bodies stay short."""

from builders import house


def test_no_file_is_long():
    assert house.long_files(house.LIBRARY, house.EXPERIMENTS) == []


def test_no_body_is_long():
    assert house.long_bodies(house.LIBRARY, house.EXPERIMENTS) == []
