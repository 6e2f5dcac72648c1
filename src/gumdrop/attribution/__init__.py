"""Masks that explain a prediction: what suffices for it, and what destroys it."""

from gumdrop.attribution.curves import Curve, HardMaskScores, deletion_curve, hard_mask_scores, insertion_curve
from gumdrop.attribution.explanation import Explanation, Region, boxes_of
from gumdrop.attribution.fido import FIDO
from gumdrop.attribution.infills import blur
from gumdrop.attribution.masks import Layout, LayoutName, find_layout, total_variation
from gumdrop.attribution.pictures import ImageFileError, read_photograph
from gumdrop.attribution.search import FIDOSettings
from gumdrop.attribution.targets import log_odds

__all__ = [
    "Curve",
    "Explanation",
    "FIDO",
    "FIDOSettings",
    "HardMaskScores",
    "ImageFileError",
    "Layout",
    "LayoutName",
    "Region",
    "blur",
    "boxes_of",
    "deletion_curve",
    "find_layout",
    "hard_mask_scores",
    "insertion_curve",
    "log_odds",
    "read_photograph",
    "total_variation",
]
