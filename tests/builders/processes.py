"""What processes of a test are started with."""

import os
from pathlib import Path

import gumdrop


def environment() -> dict[str, str]:
    source = str(Path(gumdrop.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
