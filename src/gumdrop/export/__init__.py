"""One file that predicts elsewhere: for onnxruntime, for torch, or compiled; compared with the model before it is left.

`graphs.py` and `table_graph.py` are modules that say what a call of the file computes, its variant; `formats.py` writes
them, `model.py` runs the file beside the model, and `serving.py` reads it: a module to be copied alone, which imports
nothing. See `docs/deployment.md`. Imports `prediction`, `tables` and the rooms below.
"""

from gumdrop.export.errors import ExportError
from gumdrop.export.model import export_model, export_table

__all__ = ["ExportError", "export_model", "export_table"]
