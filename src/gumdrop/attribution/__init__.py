"""Masks that explain a prediction: what suffices for it, and what destroys it."""

from gumdrop.attribution.explanation import Explanation, boxes_of
from gumdrop.attribution.fido import FIDO
from gumdrop.attribution.search import FIDOSettings
from gumdrop.attribution.targets import log_odds

__all__ = ["FIDO", "Explanation", "FIDOSettings", "boxes_of", "log_odds"]
