"""Training: one loop of epochs for one model and for many small models at once, which can be stopped and resumed."""

from gumdrop.training.checkpoints import CheckpointError
from gumdrop.training.records import EpochRecord, FitResult
from gumdrop.training.rows import RowSource
from gumdrop.training.settings import TrainingSettings
from gumdrop.training.single import fit
from gumdrop.training.stacked import fit_stacked

__all__ = ["CheckpointError", "EpochRecord", "FitResult", "RowSource", "TrainingSettings", "fit", "fit_stacked"]
