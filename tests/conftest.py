"""Settings that every test shares."""

import random

import hypothesis
import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # pytest-xdist brings the parallelism
hypothesis.settings.register_profile("gumdrop", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("gumdrop")


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
