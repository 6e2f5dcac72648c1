"""What runs of experiments share."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gumdrop_experiments.harness import run

from builders.digits import write_digits


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch) -> None:
    """The memory of each method is measured after a collection, which takes longer than the methods do here."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


@pytest.fixture(autouse=True)
def _undrawn(undrawn, monkeypatch) -> None:
    """Figures are drawn once, coarsely, where all stands: not for the page, nor where a run that goes on has them."""
    whole, other = run.write_figure, Figure.savefig

    def write_figure(picture, folder) -> None:
        if not (folder / f"{picture.name}.png").exists():
            picture.drawing.set(layout_engine="none", dpi=40)
            whole(picture, folder)

    def savefig(figure, file, **options) -> None:
        if options["format"] == "png":  # which the usual way draws twice, to lay it out first
            FigureCanvasAgg(figure).print_png(file)
        else:
            other(figure, file, **options)

    monkeypatch.setattr(run, "write_figure", write_figure)
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
