"""What differs between a table whose target is a number and one whose target is a class, in one place for each.

`task_of` gives the one that a target has; all else in this room asks it and tells the two apart nowhere.
"""

from typing import Any

from gumdrop.tables.schema.schema import Target
from gumdrop.tables.task.base import Cut, Measure, Prediction, TableTask
from gumdrop.tables.task.classification import Classification
from gumdrop.tables.task.part_known import PartKnownRegression
from gumdrop.tables.task.regression import Regression

__all__ = ["Classification", "Cut", "Measure", "Prediction", "Regression", "TableTask", "task_of"]


def task_of(target: Target) -> TableTask[Any]:
    """What is to be done with a target."""
    if target.known:
        return PartKnownRegression(target)
    return Regression(target) if target.task == "regression" else Classification(target)
