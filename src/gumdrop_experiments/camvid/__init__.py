"""Street scenes, segmented."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Segment the CamVid street scenes: no, fixed and learned dropout, with an aleatoric head beside.",
    shows="street scenes: an FC-DenseNet that shows where it is unsure, with no, fixed and learned dropout",
    minutes=300,
    quick_minutes=2,
    source="Gal, Hron & Kendall 2017, section 4; Jégou et al. 2017 (arXiv:1611.09326)",
    data=("camvid",),
    threads=None,
)
