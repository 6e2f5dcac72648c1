"""What a conversion did."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ConversionReport:
    """What `learn_dropout` did; `str` gives it as a table."""

    converted: Mapping[str, str]
    """Name of each layer that has learned dropout in front of it now, and its class."""
    replaced: Mapping[str, str]
    """Name of each ``nn.Dropout*`` that became learned, and the layer that took it over."""
    in_place: Mapping[str, str]
    """Name of each dropout of the model's own whose rate is learned where it is, and what it drops."""
    left: Mapping[str, str]
    """Name of each module with weights, or with dropout that still acts, that was left alone, and why."""
    removed: Mapping[str, str]
    """Name of each dropout that was switched off, and what it was."""

    def __str__(self) -> str:
        """Lay the report out as lines of text."""
        titles = {
            "learned": self.converted,
            "replaced": self.replaced,
            "in place": self.in_place,
            "removed": self.removed,
            "left alone": self.left,
        }
        rows = [(title, name or "(the model)", what) for title, part in titles.items() for name, what in part.items()]
        width = max((len(name) for _, name, _ in rows), default=0)
        return "\n".join(f"{title:<10}  {name:<{width}}  {what}" for title, name, what in rows)
