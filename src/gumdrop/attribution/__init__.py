"""Masks that explain a prediction: the smallest region that suffices for it, and the smallest whose loss destroys it.

`FIDO` searches them for any classifier: `search.py` learns the masks, `infills.py` says what stands where they drop.
`curves.py` scores the relevance of any method by what the model answers, and `pictures.py` begins at an image file.
Imports `functional`; of learned dropout in networks it knows nothing.
"""

from gumdrop.attribution.curves import deletion_curve, hard_mask_scores, insertion_curve
from gumdrop.attribution.explanation import Explanation, Region, boxes_of
from gumdrop.attribution.fido import FIDO
from gumdrop.attribution.infills import blur
from gumdrop.attribution.masks import find_layout, total_variation
from gumdrop.attribution.pictures import ImageFileError, read_photograph
from gumdrop.attribution.search import FIDOSettings
from gumdrop.attribution.targets import log_odds

__all__ = [
    "Explanation",
    "FIDO",
    "FIDOSettings",
    "ImageFileError",
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
