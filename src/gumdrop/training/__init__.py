"""Train one model, or many small ones as one batched program; both are stopped and resumed without a trace.

`fit` trains one model, on one processor or on many machines (`processes/`), and `fit_stacked` many. Both run the loop
of `epochs.py`, by the choices of a `TrainingSettings`; `tune_strength` lets held-out rows say how much dropout there is
to be, `fit_rates` what a network drops that is trained already, and `fit_distance` which rows are unlike them. A
checkpoint holds all that the rest of a run depends on.
Imports `networks`, `objective`, `prediction` and the rooms below.
"""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use

if TYPE_CHECKING:
    from gumdrop.training.checkpoints import CheckpointError
    from gumdrop.training.data import RowSource
    from gumdrop.training.epochs import epoch_seed
    from gumdrop.training.held_out_distance import fit_distance
    from gumdrop.training.held_out_rates import FittedRates, fit_rates
    from gumdrop.training.records import EpochRecord, FitResult
    from gumdrop.training.settings import TrainingSettings
    from gumdrop.training.single import fit
    from gumdrop.training.stacked import fit_stacked
    from gumdrop.training.strength import STRENGTHS, TunedStrength, choose_strength, tune_strength
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.training.checkpoints": ["CheckpointError"],
            "gumdrop.training.epochs": ["epoch_seed"],
            "gumdrop.training.held_out_distance": ["fit_distance"],
            "gumdrop.training.held_out_rates": ["FittedRates", "fit_rates"],
            "gumdrop.training.records": ["EpochRecord", "FitResult"],
            "gumdrop.training.data": ["RowSource"],
            "gumdrop.training.settings": ["TrainingSettings"],
            "gumdrop.training.single": ["fit"],
            "gumdrop.training.stacked": ["fit_stacked"],
            "gumdrop.training.strength": ["STRENGTHS", "TunedStrength", "choose_strength", "tune_strength"],
        },
        rooms=["processes"],
    )

__all__ = [
    "STRENGTHS",
    "CheckpointError",
    "EpochRecord",
    "FitResult",
    "FittedRates",
    "RowSource",
    "TrainingSettings",
    "TunedStrength",
    "choose_strength",
    "epoch_seed",
    "fit",
    "fit_distance",
    "fit_rates",
    "fit_stacked",
    "tune_strength",
]
