"""Masks that explain a prediction: the smallest region that suffices for it, and the smallest whose loss destroys it.

`FIDO` searches them for any classifier: `search.py` learns the masks, `infills.py` says what stands where they drop.
`curves.py` scores the relevance of any method by what the model answers, and `pictures.py` begins at an image file.
Imports `functional`; of learned dropout in networks it knows nothing.
"""

from gumdrop.attribution.explanation import Explanation, boxes_of
from gumdrop.attribution.fido import FIDO
from gumdrop.attribution.search import FIDOSettings
from gumdrop.attribution.targets import log_odds

__all__ = ["FIDO", "Explanation", "FIDOSettings", "boxes_of", "log_odds"]
