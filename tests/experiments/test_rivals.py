"""`gumdrop reproduce rivals`, scaled down, on tables of the same shape."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop_experiments.data.uci import TABLES
from gumdrop_experiments.rivals import PUBLISHED
from gumdrop_experiments.rivals import study as rivals
from gumdrop_experiments.rivals.study import read
from gumdrop_experiments.tables import methods
from gumdrop_experiments.tables.methods import METHODS, Method

from builders.reproduced import reproduce, reproduced


def write_tables(folder: Path, rows: int = 60) -> None:
    random = np.random.default_rng(0)
    for name, columns in (("airfoil", ["angle"]), ("bike-sharing", ["casual", "registered", "instant", "hr"])):
        source = TABLES[name]
        frame = pd.DataFrame(random.normal(5, 3, size=(rows, len(columns))), columns=columns)
        if name == "bike-sharing":
            frame["dteday"] = "2011-01-01"
        frame[source.target] = 100 + 10 * frame[columns[-1]] + random.normal(size=rows)
        (folder / source.file).parent.mkdir(parents=True)
        frame.to_csv(folder / source.file, index=False)


@pytest.fixture
def data(tmp_path):
    write_tables(tmp_path / "data" / "tables")
    return tmp_path / "data"


def test_a_table_is_split_and_standardised_as_published(data) -> None:
    table = read(data / "tables", "bike-sharing")
    assert table.x_train.shape == (48, 1), "parts of the target, dates and numbers of rows are no inputs"
    assert table.x_test.shape == (12, 1)
    for column in (table.x_train[:, 0], table.y_train):
        assert column.mean() == pytest.approx(0, abs=1e-9)
        assert column.std() == pytest.approx(1)
    assert table.y_test.mean() != pytest.approx(0, abs=1e-3)
    assert len(read(data / "tables", "airfoil", most=20).y_train) == 16


def test_a_quick_run_puts_ours_and_others_beside_the_published(data, tmp_path, monkeypatch) -> None:
    def fails(task) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(rivals, "QUICK_EPOCHS", 1)
    monkeypatch.setattr(methods, "ConcreteDropoutRegressor", partial(ConcreteDropoutRegressor, n_members=2))
    monkeypatch.setitem(METHODS, "forest", Method("quantile forest", fails, package="json"))
    out = tmp_path / "out"
    words = ("--quick", "--methods", "gumdrop", "linear", "forest")
    results = reproduced("rivals", out, *words, data=data)
    assert list(results) == list(PUBLISHED)
    for each in results.values():
        assert each["seeds"] == 2
        assert each["methods"]["forest"] == {"failed": "RuntimeError: out of memory"}
        linear = each["methods"]["linear"]
        assert linear["gaussian_nll"][0] == pytest.approx(-linear["log_likelihood"][0])
        assert linear["rmse"][0] < 0.2
        assert linear["rmse"][1] == 0, "two seeds of a model without randomness"
    page = (out / "report.html").read_text()
    assert "published: TabPFN v2" in page
    assert "failed: RuntimeError: out of memory" in page
    (out / "parts" / "airfoil-linear-1.json").unlink()
    assert reproduce("rivals", out, *words, "--resume", data=data) == 0


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("a,target\nred,1\nblue,2\n", "airfoil.csv must hold numbers in ['a']"),
        ("a,b\n1,1\n2,2\n", "must have the columns ['target'], got ['a', 'b']"),
    ],
)
def test_tables_that_cannot_be_used_are_named(table, said, data, tmp_path, capsys) -> None:
    (data / "tables" / "airfoil" / "airfoil.csv").write_text(table)
    assert reproduce("rivals", tmp_path / "out", data=data) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
