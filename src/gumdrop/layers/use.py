"""What a site remembers of its calls, for the passes that it is in and for those that watch it."""

from typing import Any

from torch import Tensor


class SiteUse:
    """What a site remembers of its calls. An object, not numbers, so that replicas of a model share it."""

    def __init__(self, units: int) -> None:
        self.units = units
        """Units that the site can drop, or the most that its inputs have had, see `gumdrop.layers.in_place`."""
        self.called = False
        """Whether the site dropped units since the last look at it, see `gumdrop.layers.watch`."""
        self.kept: list[tuple[Any, Any]] | None = None
        """Noise of the pass that is open, in compiled code."""
        self.has_acted = False
        """Whether it ever has, at a look."""
        self.missed = 0
        """Looks in a row without an act of the site."""
        self.versions: tuple[int, int] | None = None
        """Versions of weight and rate at the last look."""
        self.waited = 0
        """Steps of the weight since the last one of the rate."""
        self.objectives = 0
        """Objectives so far."""
        self.whole = 0
        """Rows of an objective whose batch was all of `num_data`."""
        self.was_smaller = False
        """Whether a smaller batch has followed it."""
        self.inputs: Tensor | None = None
        """Mean and deviation of the inputs of the last such batch."""
        self.changes = 0
        """Batches of this size in a row whose inputs were others than those of the one before."""
        self.looks = 0
        """Batches of this size that were compared."""
        self.told_of_num_data = False
        """Whether a `num_data` that is the size of the batch was reported."""
        self.told_of_mean = False
        """Whether a mean over positions was reported."""
        self.told = False
        """Whether somebody knows that predictions drop nothing, or is not to be told."""
