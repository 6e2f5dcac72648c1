"""``import gumdrop`` needs torch and numpy alone, and loads none of the rooms that bring an extra."""

import json
import subprocess
import sys
import textwrap

from builders.waiting import HANG

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


USE = """
    import gumdrop
    at_first = sorted(sys.modules)
    [getattr(gumdrop, name) for name in gumdrop.__all__]

    import torch
    from torch import nn

    drop = nn.Dropout(0.2)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), drop, nn.Linear(4, 2), gumdrop.HomoscedasticNoise(2))
    gumdrop.learn_dropout(model)
    gumdrop.parameter_groups(model, weight_decay=0.01)
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    mean, log_variance = model(x).chunk(2, dim=-1)
    nll = gumdrop.gaussian_nll(mean, log_variance, y)
    gumdrop.negative_elbo(nll, model, num_data=5, likelihood="gaussian").backward()
    prediction = gumdrop.predict_regression(model, x, num_samples=3, seed=0)
    gumdrop.predict_classification(nn.Sequential(model[0], model[1]), x, num_samples=3, seed=0)
    gumdrop.fix_dropout(model)
    gumdrop.draw(model, seed=0)(x)
    found = {"at first": at_first, "in use": sorted(sys.modules), "shape": list(prediction.mean.shape)}
    try:
        import pandas
    except ModuleNotFoundError as error:
        found["blocked"] = error.name

    from functools import partial
    from gumdrop.ensembles import EnsembleSettings, Rows, fit_ensembles
    from gumdrop.likelihoods import Gaussian
    from gumdrop.networks import mlp

    make = partial(mlp, 3, 1, hidden=[4], homoscedastic_noise=True)
    settings = EnsembleSettings(num_members=2, epochs=2)
    fit_ensembles([make], [Rows(x.repeat(4, 1), y[:, :1].repeat(4, 1))], settings, Gaussian(), checkpoint="fit.pt")
    found["in training"] = sorted(sys.modules)
    print(json.dumps(found))
"""


def rooms(modules):
    return {name.split(".")[1] for name in modules if name.startswith("gumdrop.")}


def test_what_is_loaded_step_by_step(tmp_path):
    """Behind the blocker, in a fresh interpreter: the core alone, and no compiler in training."""
    code = textwrap.dedent(BLOCKER) + textwrap.dedent(USE)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert {"torch", "numpy"}.isdisjoint(loaded["at first"]), "before a name is used"
    assert rooms(loaded["at first"]) == {"machine"}
    assert rooms(loaded["in use"]) == set(CORE)
    assert loaded["shape"] == [5, 2]
    assert loaded["blocked"] == "pandas"
    assert {"torch._dynamo", "sympy"}.isdisjoint(loaded["in training"])
