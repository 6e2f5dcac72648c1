"""Golden files: what Python computes, stored so that a browser can be compared with it."""

import json
import os
from pathlib import Path

import pytest


def leaves(value):
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def assert_stored(path: Path, computed, **tolerance):
    """Hold a golden file to what is computed; GUMDROP_WRITE_GOLDEN=1 writes it."""
    if os.environ.get("GUMDROP_WRITE_GOLDEN"):
        path.write_text(json.dumps(computed) + "\n", encoding="utf-8")
    stored = json.loads(path.read_text(encoding="utf-8"))
    for found, expected in zip(leaves(stored), leaves(computed), strict=True):
        assert found == (expected if isinstance(expected, str) else pytest.approx(expected, **tolerance))
