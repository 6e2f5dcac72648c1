"""From a file with columns to a model, its folder and its numbers.

`reading/` makes a data frame of a file, `schema/` encodes its columns and says what cannot be used, `streams/` reads
what does not fit into memory, `fitting/` trains and leaves a folder. Encoding is written here and not taken from a
library, because the messages with a way out and the twin of an encoding in an exported file are what tables are for.
Imports everything up to `ensembles`; needs pandas, scikit-learn and safetensors.
"""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use
from gumdrop.tables.errors import TableError

if TYPE_CHECKING:
    from gumdrop.tables.baselines import boosted_classes, boosted_regression
    from gumdrop.tables.fitting.fit import fit_table
    from gumdrop.tables.fitting.settings import FitSettings
    from gumdrop.tables.model import TableModel
    from gumdrop.tables.model_file import load_table_model
    from gumdrop.tables.reading.declared import Reading
    from gumdrop.tables.reading.table import read_table
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.tables.baselines": ["boosted_classes", "boosted_regression"],
            "gumdrop.tables.fitting.fit": ["fit_table"],
            "gumdrop.tables.fitting.settings": ["FitSettings"],
            "gumdrop.tables.model_file": ["load_table_model"],
            "gumdrop.tables.model": ["TableModel"],
            "gumdrop.tables.reading.declared": ["Reading"],
            "gumdrop.tables.reading.table": ["read_table"],
        },
    )

__all__ = [
    "FitSettings",
    "Reading",
    "TableError",
    "TableModel",
    "boosted_classes",
    "boosted_regression",
    "fit_table",
    "load_table_model",
    "read_table",
]
