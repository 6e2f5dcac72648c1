"""Settings that every test shares."""

import contextlib
import importlib
import os
import random

os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest-xdist brings the parallelism; numpy reads this when it is loaded

import hypothesis
import numpy as np
import pytest
import torch

from gumdrop.ensembles import correction

from builders.browser import launch, opening, with_scripts

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # they hold no doctests, and all have one name
collect_ignore = ["mutants"]  # a command, `make mutants`
QUICK_ROOMS = {"cli", "experiments", "export", "tables", "views"}
ALL_DRAWS, correction.DRAWS = correction.DRAWS, 2  # before any fixture of a session fits something
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # inductor would compile a program for each kind of vectors, to be sure
torch.set_num_threads(1)
hypothesis.settings.register_profile("gumdrop", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("gumdrop")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items) -> None:
    """Mark what looks at a page in a browser as slow."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def _as_many_draws_as_there_are(request):
    """Settle the noise of ensembles with all draws where it is tested, and not only waited for."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name not in QUICK_ROOMS:
            patch.setattr(correction, "DRAWS", ALL_DRAWS)
        yield


@pytest.fixture
def undrawn(request, monkeypatch) -> None:
    """Pages are written without what is in their figures, unless a browser looks at them."""
    if "browser" not in request.fixturenames:
        monkeypatch.setattr("gumdrop.views.svg.figure_svg", importlib.import_module("builders.pages").frame)


@pytest.fixture
def shell(capsys):
    return importlib.import_module("builders.shell").Shell(capsys)


@pytest.fixture(scope="session")
def browser():
    yield from launch()


@pytest.fixture
def opened(browser):
    with opening(browser) as open_page:
        yield open_page


@pytest.fixture
def page_of(browser, tmp_path):
    """Open an otherwise empty page with scripts of the interactive page and a widget, from a file."""
    with contextlib.ExitStack() as stack:
        yield lambda *scripts, **options: stack.enter_context(with_scripts(browser, tmp_path, *scripts, **options))
