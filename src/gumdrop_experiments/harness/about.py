"""What there is to say of an experiment before it is run."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class About:
    """What there is to say of an experiment before it is run."""

    shows: str
    """What it shows, in one line of the list, and at the head of its help."""
    minutes: float
    """How long its run took, on one core of an ordinary machine."""
    quick_minutes: float
    """How long it takes with `--quick`."""
    source: str
    """Where the published figures come from."""
    data: tuple[str, ...] = ()
    """The data sets that it reads: folders in that of `--data`."""
    threads: int | None = 1
    """Threads that torch computes with; None leaves their number, or leaves it to the study."""
    estimated: bool = False
    """Whether the minutes are an estimate, because no run has gone to its end."""
