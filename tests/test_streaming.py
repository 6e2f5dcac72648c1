"""Tables larger than memory: pieces, statistics in one pass, the order of rows, and files that are not whole."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from gumdrop import cli, table_stream
from gumdrop.datasets import streaming
from gumdrop.datasets.inference import infer_schema
from gumdrop.datasets.streaming import Moments, StreamedRows, TableStream, survey
from gumdrop.datasets.tabular import TableError
from gumdrop.ensembles.streaming import fit_streamed_ensemble, stream_schedule
from gumdrop.networks import mlp
from gumdrop.training.distributed import Ranks

pa = pytest.importorskip("pyarrow")
from pyarrow import feather  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402

NUM_ROWS = 1200


def table(num_rows: int = NUM_ROWS, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(5.0, 3.0, num_rows)
    kind = np.where(rng.random(num_rows) < 0.5, "red", "blue").astype(object)
    kind[num_rows // 2] = "rare"
    frame = pd.DataFrame({"number": np.arange(num_rows, dtype=float), "x": x, "kind": kind})
    frame["y"] = 2.0 * x + 3.0 * (kind == "red") + rng.normal(0.0, 1.0, num_rows)
    frame.loc[3, "x"] = np.nan
    frame.loc[5, "y"] = np.nan
    return frame


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "rows.parquet"
    table().to_parquet(place, row_group_size=100)
    return place


def prepared(stream: TableStream, sample_rows: int = 200, **options):
    found = survey(stream, "y", sample_rows=sample_rows)
    schema = found.exact(infer_schema(found.sample, "y"))
    options = {"batch_size": 64, "left_out": found.rows, "num_rows": found.num_known} | options
    return found, schema, StreamedRows(stream, schema, **options)


def numbers(schema, batches) -> np.ndarray:
    """Which rows of the table are in some batches, from the column that numbers them."""
    place = [column.name for column in schema.columns].index("number")
    x = torch.cat([x for x, _ in batches])[:, place].double().numpy()
    return np.round(x * schema.columns[place].std + schema.columns[place].mean).astype(int)


# Pieces and statistics


@pytest.mark.parametrize("kind", ["parquet", "arrow", "folder"])
def test_every_row_is_read_once_whatever_the_files(tmp_path, path, kind) -> None:
    place = path
    if kind == "arrow":
        place = tmp_path / "rows.arrow"
        feather.write_feather(table(), place, chunksize=100, compression="uncompressed")
    elif kind == "folder":
        place = tmp_path / "folder"
        place.mkdir()
        table()[:500].to_parquet(place / "a.parquet", row_group_size=100)
        table()[500:].to_parquet(place / "b.parquet", row_group_size=100)
    stream = TableStream(place)
    assert (stream.num_rows, len(stream.pieces)) == (NUM_ROWS, 12)
    found = [(row, frame) for piece in stream.pieces for row, frame in stream.read(piece)]
    assert [row for row, _ in found] == list(range(0, NUM_ROWS, 100))
    pd.testing.assert_frame_equal(
        pd.concat([frame for _, frame in found], ignore_index=True), table(), check_dtype=False
    )


def test_moments_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(1e6, 3.0, 1001)
    values[[4, 700]] = np.nan
    total = sum((Moments.of(part) for part in np.array_split(values, 7)), Moments())
    known = values[~np.isnan(values)]
    expected = {"mean": known.mean(), "std": known.std(), "least": known.min(), "most": known.max()}
    assert total.statistics == pytest.approx(expected, rel=1e-12)
    assert total.count == 999
    assert (Moments() + Moments.of(np.array([np.nan]))).count == 0
    assert Moments.of(np.full(3, 0.1)).statistics["std"] == 1.0


def test_the_schema_has_the_statistics_of_the_rows_that_train(path) -> None:
    found, schema, _ = prepared(TableStream(path))
    frame = table()
    rest = frame.drop(index=found.rows)[lambda rows: rows["y"].notna()]
    x = next(column for column in schema.columns if column.name == "x")
    assert (x.mean, x.std) == pytest.approx((rest["x"].mean(), rest["x"].std(ddof=0)))
    assert (schema.target.mean, schema.target.std) == pytest.approx((rest["y"].mean(), rest["y"].std(ddof=0)))
    assert found.num_known == len(rest)
    assert set(next(column for column in schema.columns if column.name == "kind").categories) == {"red", "blue", "rare"}
    pd.testing.assert_frame_equal(found.sample, frame.iloc[found.rows].reset_index(drop=True), check_dtype=False)


# The order of the rows


def test_a_pass_gives_each_row_at_most_once_in_an_order_of_its_own(path) -> None:
    found, schema, rows = prepared(TableStream(path), window=256)
    seen = []
    for epoch in (1, 2, 1):
        rows.set_epoch(epoch)
        batches = list(rows)
        assert len(batches) == len(rows) == found.num_known // 64
        seen.append(numbers(schema, batches))
    allowed = set(range(NUM_ROWS)) - set(found.rows.tolist()) - {5}
    assert len(set(seen[0])) == len(seen[0]) == 64 * len(rows)
    assert set(seen[0]) <= allowed
    assert np.array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], seen[1])
    jumps = np.abs(np.diff(seen[0]))
    assert np.median(jumps) > 50  # of 1,200: rows of one piece, 100 long, do not stay together


@pytest.mark.parametrize("size", [2, 5])
def test_processes_share_the_rows(path, monkeypatch, size) -> None:
    seen = []
    for rank in range(size):  # with five there are too few pieces, so each takes its share of every piece
        monkeypatch.setattr(streaming, "ranks", lambda rank=rank: Ranks(rank, size))
        _, schema, rows = prepared(TableStream(path), window=256)
        seen.append(numbers(schema, rows))
    together = np.concatenate(seen)
    assert len(set(together)) == len(together) > 0.9 * 980


def test_a_long_pass_is_cut_into_epochs(path, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "ROWS_OF_AN_EPOCH", 300)
    _, schema, rows = prepared(TableStream(path), batch_size=8)
    assert rows.epochs_of_a_pass == 3
    seen = []
    for epoch in (1, 2, 3):
        rows.set_epoch(epoch)
        seen.append(numbers(schema, rows))
    together = np.concatenate(seen)
    assert len(set(together)) == len(together)
    assert 0.9 < len(together) / (3 * 8 * len(rows)) <= 1.0  # epochs of fewer rows than others end earlier


def test_an_ensemble_learns_from_the_stream_and_goes_on_after_a_stop(path, tmp_path) -> None:
    found, schema, rows = prepared(TableStream(path))
    x, y = torch.from_numpy(schema.encode_inputs(found.sample).x), torch.from_numpy(schema.encode_target(found.sample))

    def make() -> nn.Sequential:
        return mlp(schema.num_features, 1, hidden=(8,), homoscedastic_noise=True)

    def train():
        settings = {"passes": 4, "num_members": 2, "lr": 5e-2, "checkpoint": tmp_path / "run"}
        return fit_streamed_ensemble(make, rows, (x, y), regression=True, **settings)

    fitted = train()
    assert float(fitted.model.predict(x, num_samples=20, seed=0).log_prob(y).mean()) > -1.0  # a constant has -1.42
    assert sorted(place.name for place in tmp_path.glob("run*")) == ["run-0", "run-1"]
    again = train()  # has nothing left to do
    for one, other in zip(fitted.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.members[0].history == fitted.members[0].history


def test_the_schedule_takes_one_pass_of_a_long_table() -> None:
    assert stream_schedule(10_000_000) == (1024, 1)
    assert stream_schedule(100_000) == (1024, 26)
    assert stream_schedule(100_000, batch_size=500, passes=2) == (500, 2)


# The command


def test_gumdrop_fit_reads_in_pieces(path, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(table_stream, "SAMPLE_ROWS", 300)
    flags = ["--target", "y", "--stream", "--members", "1", "--epochs", "6", "--hidden", "8", "--batch-size", "64"]
    assert cli.main(["fit", str(path), *flags, "--out", str(tmp_path / "fit")]) == 0
    said = capsys.readouterr().out
    assert "rows train, as they are read in pieces; a sample of" in said
    results = json.loads((tmp_path / "fit" / "results.json").read_text())
    assert results["table"]["rows"] == NUM_ROWS
    assert results["table"]["train_rows"] + 300 <= NUM_ROWS < results["table"]["train_rows"] + 420
    assert results["scores"][0]["values"]["RMSE"] < results["scores"][-1]["values"]["RMSE"] / 2
    assert (results["settings"]["epochs"], results["settings"]["stream"]) == (6, True)
    assert cli.main(["predict", str(tmp_path / "fit"), str(path), "--out", str(tmp_path / "out.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == NUM_ROWS
    assert not list(tmp_path.glob("*.partial"))


def test_the_command_says_what_a_damaged_file_lacks(path, tmp_path, capsys) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    assert cli.main(["fit", str(path), "--target", "y", "--stream", "--out", str(tmp_path / "fit")]) == 2
    assert "is cut short or damaged" in capsys.readouterr().err
    assert [place.name for place in tmp_path.iterdir()] == ["rows.parquet"]


# Files that are not whole


def test_a_truncated_file_is_refused(path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TableError, match=r"rows\.parquet is cut short or damaged .*write it again"):
        TableStream(path)


def test_a_file_that_is_damaged_inside_is_refused_when_it_is_read(path) -> None:
    contents = bytearray(path.read_bytes())
    contents[200:2000] = bytes(1800)
    path.write_bytes(bytes(contents))
    with pytest.raises(TableError, match=r"rows\.parquet is cut short or damaged"):
        survey(TableStream(path), "y")


def test_a_column_whose_type_changes_from_file_to_file_is_named(tmp_path) -> None:
    table().to_parquet(tmp_path / "a.parquet")
    table().assign(x="many").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"column 'x' is text in b\.parquet and numbers in a\.parquet"):
        TableStream(tmp_path)
    table().drop(columns="kind").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"column 'kind' is absent in b\.parquet and text in a\.parquet"):
        TableStream(tmp_path)


def test_whole_and_broken_numbers_may_take_turns(tmp_path) -> None:
    table()[["x", "y"]].to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"x": [1, 2, 3], "y": [1, 2, 3]}).to_parquet(tmp_path / "b.parquet")
    assert TableStream(tmp_path).num_rows == NUM_ROWS + 3


def test_what_is_not_there_is_named(tmp_path, path) -> None:
    with pytest.raises(TableError, match=r"no file, nor a folder with files"):
        TableStream(tmp_path / "none.parquet")
    with pytest.raises(TableError, match=r"the table has no column 'z'; its columns are: number, x, kind, y"):
        survey(TableStream(path), "z")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "empty.parquet")
    with pytest.raises(TableError, match="has no rows"):
        TableStream(tmp_path / "empty.parquet")
