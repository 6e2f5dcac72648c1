"""What a run was made with: the versions and the class of hardware that stand beside its figures."""

import platform
import re

import numpy as np
import torch


def environment(device: str = "cpu") -> dict[str, str]:
    """Describe where something runs, by class and never by name: versions of Python, torch, numpy, and the hardware."""
    hardware = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    if torch.device(device).type == "cuda":
        hardware = f"{torch.cuda.get_device_name(device)}, {hardware}"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "hardware": hardware,
    }


def in_words(value: str) -> str:
    """Word a value of `environment` for a reader; records keep theirs, by which a run knows its own."""
    return re.sub(r"\b1 threads\b", "1 thread", value)
