"""What a run was made with: the versions and the class of hardware that stand beside its figures."""

import platform

import numpy as np
import torch

__all__ = ["environment"]


def environment(device: str = "cpu") -> dict[str, str]:
    """Describe where something runs, by class and never by name.

    Args:
        device: Where the model is, as torch spells it.

    Returns:
        Versions of Python, torch and numpy, and the hardware.

    Example:
        >>> list(environment())
        ['python', 'torch', 'numpy', 'hardware']
    """
    hardware = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    if torch.device(device).type == "cuda":
        hardware = f"{torch.cuda.get_device_name(device)}, {hardware}"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "hardware": hardware,
    }
