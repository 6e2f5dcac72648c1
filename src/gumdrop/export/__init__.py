"""Take a model with learned dropout elsewhere: one file for onnxruntime, for torch, or compiled.

What a call of the file computes is its variant:

- ``"draw"``: one function, drawn anew at each call;
- ``"moments"``: S functions, summarised as `gumdrop.predict_regression` and `gumdrop.predict_classification` do;
- ``"noise"``: the same, with the noise as an input: the same noise, the same answer, on any machine;
- ``"deterministic"``: moments that are propagated through the layers without drawing anything; for numbers, and
  networks that `gumdrop.predict_regression` takes with ``method="moments"``.

A file holds its metadata, is run before it is left in its place, and appears whole or not at all. See
`docs/deployment.md`.
"""

from gumdrop.export.errors import ExportError
from gumdrop.export.formats import FORMATS, METADATA
from gumdrop.export.model import export_model, export_table

__all__ = ["ExportError", "FORMATS", "METADATA", "export_model", "export_table"]
