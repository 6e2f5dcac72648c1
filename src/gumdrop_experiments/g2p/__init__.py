"""From letters to phones."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Turn letters into phones: the report's network at fixed, broken and learned rates, and one with attention.",
    shows="from letters to phones (CMUdict): fixed, broken and learned rates, and doubt that announces errors",
    minutes=150,
    quick_minutes=3,
    source="a replication report on Concrete Dropout in LSTMs; literature on CMUdict",
    data=("g2p",),
)
