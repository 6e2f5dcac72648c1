"""What a fit leaves to read: records with a docstring for each field, and the file that holds them."""

from gumdrop.tables.results.parts import (
    LIKELIHOOD,
    STEP_LIKELIHOOD,
    Calibration,
    ClassificationRows,
    Comparison,
    Gain,
    Ranking,
    Rate,
    RegressionRows,
    Score,
    Stopped,
    TableFacts,
    TargetFacts,
    UncertainRow,
    UncertainRows,
)
from gumdrop.tables.results.results import RESULTS_FILE, Better, FitResults, read_results, write_results

__all__ = [
    "LIKELIHOOD",
    "STEP_LIKELIHOOD",
    "Better",
    "Calibration",
    "ClassificationRows",
    "Comparison",
    "FitResults",
    "Gain",
    "RESULTS_FILE",
    "Ranking",
    "Rate",
    "RegressionRows",
    "Score",
    "Stopped",
    "TableFacts",
    "TargetFacts",
    "UncertainRow",
    "UncertainRows",
    "read_results",
    "write_results",
]
