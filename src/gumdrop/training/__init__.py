"""Training: a loop for one model, and one for many small models at once, both stopped and resumed."""

from gumdrop.training.checkpoints import CheckpointError
from gumdrop.training.loop import epoch_seed, fit
from gumdrop.training.records import EpochRecord, FitResult
from gumdrop.training.rows import RowSource
from gumdrop.training.stacked import fit_stacked

__all__ = ["CheckpointError", "EpochRecord", "FitResult", "RowSource", "epoch_seed", "fit", "fit_stacked"]
