"""What runs of experiments share."""

import pytest
import torch
from matplotlib.figure import Figure

from builders.digits import write_digits


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch) -> None:
    """The memory of each method is measured after a collection, which takes longer than the methods do here."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


@pytest.fixture(autouse=True)
def _undrawn(undrawn, monkeypatch) -> None:
    """Figures are drawn for their own files alone, and not once more for the page; coarsely, where all stands."""
    own = Figure.savefig

    def savefig(figure, file, **options) -> None:
        figure.set_layout_engine("none")
        own(figure, file, **{**options, "dpi": 40})

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture(autouse=True)
def _threads():
    """Some runs take as many threads as they are told to."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def constants(monkeypatch):
    """Set constants of a module, so that a run is short: `constants(study, EPOCHS=1)`."""

    def set_constants(module, **values) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_constants


@pytest.fixture
def digits(tmp_path):
    """A folder of data sets that has made-up digits."""
    write_digits(tmp_path / "data" / "mnist")
    return tmp_path / "data"
