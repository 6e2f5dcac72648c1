"""What a fit leaves to read: records with a docstring for each field, and the file that holds them."""

from gumdrop.tables.results.by_column import ByColumn, Cells, Group, Importance
from gumdrop.tables.results.parts import (
    LIKELIHOOD,
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
    Threshold,
    UncertainRow,
    UncertainRows,
)
from gumdrop.tables.results.results import RESULTS_FILE, Better, FitResults, read_results, write_results

__all__ = [
    "LIKELIHOOD",
    "Better",
    "ByColumn",
    "Calibration",
    "Cells",
    "ClassificationRows",
    "Comparison",
    "FitResults",
    "Gain",
    "Group",
    "Importance",
    "RESULTS_FILE",
    "Ranking",
    "Rate",
    "RegressionRows",
    "Score",
    "Stopped",
    "TableFacts",
    "TargetFacts",
    "Threshold",
    "UncertainRow",
    "UncertainRows",
    "read_results",
    "write_results",
]
