"""A small experiment, sums of ranges, with all that an experiment has."""

from gumdrop_experiments.harness.settings import About, BaseSettings, flag

ABOUT = About(shows="sums of ranges", minutes=(2, 0.1), source="nobody [2020]")


class Settings(BaseSettings):
    """The flags of the small experiment."""

    width: int = flag(3, least=1, quick=2)
    """Factor of the sums."""
    sizes: tuple[int, ...] = (2, 5)
    """Lengths of the ranges."""
    stop: str = flag("", recorded=False)
    """Part in which to press Ctrl-C."""
