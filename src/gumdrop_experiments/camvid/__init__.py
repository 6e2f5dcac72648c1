"""Segment street scenes (CamVid): no, fixed and learned dropout in an FC-DenseNet that shows where it is unsure.

Beside them stands a network with learned rates and an aleatoric head, which is only shown.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Segment the CamVid street scenes: no, fixed and learned dropout, with an aleatoric head beside.",
    shows="street scenes: an FC-DenseNet that shows where it is unsure, with no, fixed and learned dropout",
    minutes=300,
    quick_minutes=2,
    source="Gal, Hron & Kendall 2017, section 4; Jégou et al. 2017 (arXiv:1611.09326)",
    data=("camvid",),
    threads=None,
)
