"""Dropout as a regulariser."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Test errors over training, with fixed dropout, without, and with learned rates.",
    shows="test errors of dense networks and LeNet over training: no dropout, fixed rates, learned rates",
    minutes=170,
    quick_minutes=1,
    source="Xu, Zhao & Zhao's tutorial: 187, 166 and 127 errors, LeNet 110 and 70; Hinton et al. 2012 "
    "(arXiv:1207.0580): 160, 130 and 110, from memory",
    data=("mnist",),
)
