"""Training: a loop for one model, and one for many small models at once, both stopped and resumed."""

from gumdrop.training.loop import fit
from gumdrop.training.rows import RowSource
from gumdrop.training.stacked import fit_stacked
from gumdrop.training.state import CheckpointError, EpochRecord, FitResult

__all__ = ["CheckpointError", "EpochRecord", "FitResult", "RowSource", "fit", "fit_stacked"]
