"""Say written words (CMUdict): the report's network with its broken setting and ours, and one that is worth using.

The report's learned dropout failed: its regulariser was never added to the loss and a new mask was drawn at each time
step. Here the same network stands in both settings beside fixed rates. The second network attends to the letters; drawn
functions rank its ways to say a word, and where they disagree it tends to be wrong.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Turn letters into phones: the report's network at fixed, broken and learned rates, and one with attention.",
    shows="from letters to phones (CMUdict): fixed, broken and learned rates, and uncertainty that announces errors",
    minutes=150,
    quick_minutes=3,
    source="a replication report on Concrete Dropout in LSTMs; literature on CMUdict",
    data=("g2p",),
)

PUBLISHED = {"fixed 0.1": "0.82", "broken": "0.96"}
"""Hamming distance of the report's network."""
