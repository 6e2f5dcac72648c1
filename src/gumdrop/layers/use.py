"""What a site remembers of its calls, for the passes that it is in and for those that watch it."""

from typing import Any


class SiteUse:
    """What a site remembers of its calls. An object, not numbers, so that replicas of a model share it."""

    def __init__(self, units: int) -> None:
        self.units = units
        """Units that the site can drop, or the most that its inputs have had, see `gumdrop.layers.in_place`."""
        self.called = False
        """Whether the site dropped units since the last look at it, see `gumdrop.layers.watch`."""
        self.kept: list[tuple[Any, Any]] | None = None
        """Noise of the pass that is open, in compiled code."""
        self.told = False
        """Whether somebody knows that predictions drop nothing, or is not to be told."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Leave out what stored sites remember of objectives, which `gumdrop.layers.watch` does beside them."""
        vars(self).update({name: state[name] for name in ("units", "called", "kept", "told")})
