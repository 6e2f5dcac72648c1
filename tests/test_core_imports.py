"""``import gumdrop`` needs torch and numpy alone, and loads none of the rooms that bring an extra."""

import json
import subprocess
import sys
import textwrap

import pytest

from builders.waiting import HANG

EXTRAS = [
    "pandas",
    "sklearn",
    "matplotlib",
    "tqdm",
    "cyclopts",
    "rich",
    "safetensors",
    "jinja2",
    "transformers",
    "captum",
    "gymnasium",
]
CORE = ["functional", "layers", "likelihoods", "machine", "networks", "objective", "prediction"]

BLOCKER = """
    import importlib.abc
    import json
    import sys

    ALLOWED = {
        *sys.stdlib_module_names, "gumdrop", "torch", "torchgen", "functorch", "numpy",
        # what torch itself declares
        "sympy", "networkx", "jinja2", "fsspec", "filelock", "typing_extensions", "mpmath", "markupsafe", "setuptools",
        "triton", "nvidia", "cuda",
        # shims of setuptools
        "_distutils_hack", "distutils", "pkg_resources",
    }

    class Behind(importlib.abc.MetaPathFinder):
        # Finds what is allowed and nothing else, as if nothing else were installed.
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            top = name.split(".")[0]
            if top in ALLOWED or top.startswith("_sysconfigdata"):
                return self.finder.find_spec(name, path, target)
            return None

    sys.meta_path[:] = [Behind(finder) for finder in sys.meta_path]
"""


def run(code):
    """Run code in a fresh interpreter behind the blocker; return what it prints as JSON."""
    script = textwrap.dedent(BLOCKER) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


USE = """
    import gumdrop
    at_first = sorted(sys.modules)
    [getattr(gumdrop, name) for name in gumdrop.__all__]

    import torch
    from torch import nn

    drop = nn.Dropout(0.2)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), drop, nn.Linear(4, 2), gumdrop.HomoscedasticNoise(2))
    gumdrop.learn_dropout(model)
    optimizer = torch.optim.AdamW(gumdrop.parameter_groups(model, weight_decay=0.01))
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    mean, log_variance = model(x).chunk(2, dim=-1)
    nll = gumdrop.gaussian_nll(mean, log_variance, y)
    gumdrop.negative_elbo(nll, model, num_data=5, likelihood="gaussian").backward()
    optimizer.step()
    prediction = gumdrop.predict_regression(model, x, num_samples=3, seed=0)
    gumdrop.predict_classification(nn.Sequential(model[0], model[1]), x, num_samples=3, seed=0)
    gumdrop.fix_dropout(model)
    gumdrop.draw(model, seed=0)(x)
    print(json.dumps({"at_first": at_first, "modules": sorted(sys.modules), "shape": list(prediction.mean.shape)}))
"""


@pytest.fixture(scope="module")
def seen():
    return run(USE)


def test_the_core_works_with_torch_and_numpy_alone(seen):
    assert seen["shape"] == [5, 2]


def test_no_extra_is_imported(seen):
    imported = {name.split(".")[0] for name in seen["modules"]}
    assert imported.isdisjoint(set(EXTRAS) - {"jinja2"})  # torch may load its own jinja2


def test_only_the_core_is_loaded(seen):
    rooms = {name.split(".")[1] for name in seen["modules"] if name.startswith("gumdrop.")}
    assert rooms == set(CORE)


def test_nothing_is_loaded_before_a_name_is_used(seen):
    assert {"torch", "numpy"}.isdisjoint(seen["at_first"])
    assert {name.split(".")[1] for name in seen["at_first"] if name.startswith("gumdrop.")} == {"machine"}


def test_the_blocker_blocks():
    refused = run("""
        try:
            import pandas
        except ModuleNotFoundError as error:
            print(json.dumps(error.name))
    """)
    assert refused == "pandas"
