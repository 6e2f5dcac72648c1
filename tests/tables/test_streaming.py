"""Tables larger than memory: pieces, statistics in one pass, the order of rows, and files that are not whole."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from gumdrop import cli
from gumdrop.ensembles import EnsembleSettings, Rows
from gumdrop.ensembles.fitting import fit_streamed_ensemble, stream_schedule
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.likelihoods import Gaussian
from gumdrop.networks import mlp
from gumdrop.tables import FitSettings, Reading, TableError, fit_table, load_table_model
from gumdrop.tables.prediction import predict_stream
from gumdrop.tables.reading.spelling import Mark
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.streams import pieces as streaming
from gumdrop.tables.streams import rows as streamed_rows
from gumdrop.tables.streams.pieces import TableStream
from gumdrop.tables.streams.rows import StreamedRows
from gumdrop.tables.streams.survey import Moments, survey
from gumdrop.training.processes import ProcessGroup

from builders.processes import run_two
from builders.tables import ONE

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
    return found, schema, StreamedRows(stream, schema, found, **({"batch_size": 64} | options))


def numbers(schema, batches) -> np.ndarray:
    """Which rows of the table are in some batches, from the column that numbers them."""
    place = [column.name for column in schema.columns].index("number")
    x = torch.cat([x for x, _ in batches])[:, place].double().numpy()
    return np.round(x * schema.columns[place].std + schema.columns[place].mean).astype(int)


# Pieces and statistics


@pytest.mark.parametrize("kind", ["parquet", "pq", "PARQUET", "arrow", "folder"])
def test_every_row_is_read_once_whatever_the_files(tmp_path, path, kind) -> None:
    place = path
    if kind in {"pq", "PARQUET"}:
        place = path.rename(tmp_path / f"rows.{kind}")
    elif kind == "arrow":
        place = tmp_path / "rows.arrow"
        feather.write_feather(table(), place, chunksize=100, compression="uncompressed")
    elif kind == "folder":
        place = tmp_path / "folder"
        place.mkdir()
        table()[:500].to_parquet(place / "a.parquet", row_group_size=100)
        table()[500:].to_parquet(place / "b.PQ", row_group_size=100)
    stream = TableStream(place)
    assert (stream.num_rows, len(stream.pieces)) == (NUM_ROWS, 12)
    found = [(row, frame) for piece in stream.pieces for row, frame in stream.read(piece)]
    assert [row for row, _ in found] == list(range(0, NUM_ROWS, 100))
    whole = pd.concat([frame for _, frame in found], ignore_index=True)
    pd.testing.assert_frame_equal(whole, table(), check_dtype=False)


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
    tiny = sum((Moments.of(part) for part in np.array_split(values * 2.0**-900, 7)), Moments())
    assert tiny.statistics == {name: value * 2.0**-900 for name, value in total.statistics.items()}


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


def test_labels_that_begin_in_rows_without_a_target_are_in_the_sample(tmp_path) -> None:
    frame = table()
    frame.loc[[5, 700], "kind"] = "late"
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    sample = survey(TableStream(tmp_path / "rows.parquet"), "y", sample_rows=10).sample
    assert (sample["kind"] == "late").sum() == 1


def test_a_target_of_texts_that_are_numbers_has_the_statistics_of_the_sample(tmp_path) -> None:
    table().assign(y=lambda rows: rows["y"].map(str, na_action="ignore")).to_parquet(tmp_path / "rows.parquet")
    summary = survey(TableStream(tmp_path / "rows.parquet"), "y", sample_rows=10)
    target = summary.exact(infer_schema(summary.sample, "y")).target
    assert target.std == pytest.approx(summary.sample["y"].astype(float).std(ddof=0))


@pytest.mark.parametrize("row", [5, 700])
def test_an_infinite_number_is_named_with_its_row(tmp_path, row) -> None:
    frame = table()
    frame.loc[row, ["y", "x"]] = [0.5, np.inf]
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    for sample_rows in (10, 400):
        with pytest.raises(TableError, match=f"'x' has 'inf' in data row {row + 1}, which is infinite"):
            survey(TableStream(tmp_path / "rows.parquet"), "y", sample_rows=sample_rows)


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
        monkeypatch.setattr(streamed_rows, "process_group", lambda rank=rank: ProcessGroup(rank, size))
        _, schema, rows = prepared(TableStream(path), window=256)
        seen.append(numbers(schema, rows))
    together = np.concatenate(seen)
    assert len(set(together)) == len(together) > 0.9 * 980


def test_a_long_pass_is_cut_into_epochs(path, monkeypatch) -> None:
    monkeypatch.setattr(streamed_rows, "ROWS_OF_AN_EPOCH", 300)
    _, schema, rows = prepared(TableStream(path), batch_size=8)
    assert rows.epochs_of_a_pass == 3
    seen = []
    for epoch in (1, 2, 3):
        rows.set_epoch(epoch)
        seen.append(numbers(schema, rows))
    together = np.concatenate(seen)
    assert len(set(together)) == len(together)
    assert 0.9 < len(together) / (3 * 8 * len(rows)) <= 1.0  # epochs of fewer rows than others end earlier


def watched(schema, frame: pd.DataFrame) -> Rows:
    return Rows(torch.from_numpy(schema.encode_inputs(frame).x), torch.from_numpy(schema.encode_target(frame)))


def test_an_ensemble_learns_from_the_stream_and_goes_on_after_a_stop(path, tmp_path) -> None:
    found, schema, rows = prepared(TableStream(path))
    held_out = watched(schema, found.sample)

    def make() -> nn.Sequential:
        return mlp(schema.num_features, 1, hidden=(8,), homoscedastic_noise=True)

    def train():
        settings = EnsembleSettings(epochs=4, num_members=2, lr=5e-2)
        return fit_streamed_ensemble(make, rows, held_out, settings, Gaussian(), checkpoint=tmp_path / "run")

    fitted = train()
    predicted = fitted.model.predict(held_out.x, num_samples=20, seed=0)
    assert float(predicted.log_prob(held_out.y).mean()) > -1.0  # a constant has -1.42
    assert sorted(place.name for place in tmp_path.glob("run*")) == ["run-0", "run-1"]
    again = train()  # has nothing left to do
    for one, other in zip(fitted.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.members[0].history == fitted.members[0].history


def test_members_that_begin_alike_train_with_masks_of_their_own(path) -> None:
    found, schema, rows = prepared(TableStream(path))
    network = mlp(schema.num_features, 1, hidden=(8,), homoscedastic_noise=True)
    settings = EnsembleSettings(epochs=1, num_members=2)
    held_out = watched(schema, found.sample)
    fitted = fit_streamed_ensemble(lambda: copy.deepcopy(network), rows, held_out, settings, Gaussian())
    one, other = fitted.model.members
    assert not torch.equal(one[0].weight, other[0].weight)


def test_the_schedule_takes_one_pass_of_a_long_table() -> None:
    assert stream_schedule(10_000_000) == (1024, 1)
    assert stream_schedule(100_000) == (1024, 26)
    assert stream_schedule(100_000, batch_size=500, passes=2) == (500, 2)


# The command


def test_a_short_table_with_dates_as_text_leaves_rows_to_train_on(tmp_path, shell) -> None:
    days = pd.date_range("2020-01-01", periods=300, freq="3D").strftime("%d.%m.%Y")
    frame = pd.DataFrame({"day": days, "name": [f"N{i}" for i in range(300)], "y": np.arange(300) % 97 / 7})
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ["fit", str(tmp_path / "rows.parquet"), "--target", "y", "--stream", *ONE, "--out", str(tmp_path / "fit")]
    assert "and 0 are left to train on: read it as a whole" in shell.refused(*words)
    assert cli.main([*words, "--drop", "name"]) == 0
    results = json.loads((tmp_path / "fit" / "results.json").read_text())
    assert results["table"]["train_rows"] > 100


def test_numbers_that_are_dates_or_names_are_such_in_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(streamed_rows, "SAMPLE_ROWS", 100)
    i = np.arange(600)
    frame = pd.DataFrame({"day": 20240101 + i % 28, "code": 100 * (i % 40), "y": i % 97 / 7})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    settings = FitSettings(stream=True, hidden=(4,), epochs=1, num_members=1)
    schema = fit_table(tmp_path / "rows.parquet", "y", settings=settings, reading=Reading(categories=("code",))).schema
    day, code = schema.columns
    assert (day.kind, day.rounded(day.least), day.rounded(day.most)) == ("date", "2024-01-01", "2024-01-28")
    assert len(code.categories) == 40


def test_gumdrop_fit_reads_in_pieces(path, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(streamed_rows, "SAMPLE_ROWS", 300)
    flags = ["--target", "y", "--stream", "--members", "1", "--epochs", "6", "--hidden", "8", "--batch-size", "64"]
    assert cli.main(["fit", str(path), *flags, "--no-compare", "--out", str(tmp_path / "fit")]) == 0
    said = capsys.readouterr().out
    assert "rows train, as they are read in pieces; a sample of" in said
    assert "1 of 1,200 rows have no 'y' (blank, NA, None and the like) and are left out" in said
    results = json.loads((tmp_path / "fit" / "results.json").read_text())
    assert results["table"]["rows"] == NUM_ROWS
    assert results["table"]["train_rows"] + 300 <= NUM_ROWS < results["table"]["train_rows"] + 420
    assert results["scores"][0]["values"]["RMSE"] < results["scores"][-1]["values"]["RMSE"] / 2
    assert (results["settings"]["epochs"], results["settings"]["stream"]) == (6, True)
    assert cli.main(["predict", str(tmp_path / "fit"), str(path), "--out", str(tmp_path / "out.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == NUM_ROWS
    assert not list(tmp_path.glob("*.partial"))


def test_long_numbers_stay_exact_beside_missing_cells(fitted, tmp_path, shell) -> None:
    ids = pd.array([2**60 + 1, None, 2**60 + 3], dtype="Int64")
    hashes = np.array([2**64 - 1, 5, 2**63 + 1], dtype=np.uint64)
    rows = pd.read_parquet(fitted / "new.parquet").iloc[:3].assign(id=ids, hash=hashes)
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=2)
    place = tmp_path / "out.parquet"
    shell.told("predict", fitted / "fit", tmp_path / "rows.parquet", "--stream", "--keep", "id", "hash", "--out", place)
    written = pd.read_parquet(place)
    assert written["id"].astype(object).tolist() == ids.astype(object).tolist()
    assert written["hash"].tolist() == hashes.tolist()


def test_texts_in_pieces_have_the_decimal_comma_of_training(fitted, tmp_path) -> None:
    model = load_table_model(fitted / "fit")
    model = replace(model, schema=replace(model.schema, marks={"x": Mark(",")}))
    rows, found = pd.read_parquet(fitted / "new.parquet").iloc[:2], []
    for cells in ([1234.0, 2500.0], ["1.234", "2.500"]):
        rows.assign(x=cells).to_parquet(tmp_path / "rows.parquet")
        predict_stream(model, TableStream(tmp_path / "rows.parquet"), found.append)
    pd.testing.assert_frame_equal(*found)


# Files that are not whole


def test_a_column_that_is_not_in_every_file_is_named(tmp_path) -> None:
    table().to_parquet(tmp_path / "a.parquet")
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


# Predictions

NOT_OF_STREAMS = {"out", "scores", "scored_rows", "drift"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of a table with dates, words and yes or no, and pieces of such a table with odd cells."""
    place = tmp_path_factory.mktemp("fitted")
    rng = np.random.default_rng(2)
    frame = table(400).assign(
        sold=pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, 400), "D"),
        garden=rng.random(400) < 0.5,
        id=np.arange(400) + 2**40,
        note=pd.Series([None] * 150 + ["late"] * 250, dtype=object),
    )
    frame.loc[7, "kind"] = " red "
    frame.loc[8, "kind"] = "?"
    frame.loc[260, "kind"] = "violet"
    frame.loc[261, "x"] = 900.0
    known = frame.drop(columns=["id", "note"]).drop(index=[260, 261])
    known.to_parquet(place / "known.parquet")
    assert cli.main(["fit", str(place / "known.parquet"), "--target", "y", *ONE, "--out", str(place / "fit")]) == 0
    (place / "new").mkdir()
    frame.iloc[:250].to_parquet(place / "new" / "a.parquet", row_group_size=60)
    feather.write_feather(frame.iloc[250:].reset_index(drop=True), place / "new" / "b.arrow", compression="lz4")
    frame.to_parquet(place / "new.parquet")
    return place


@pytest.mark.parametrize("name", ["out.csv.gz", "out.parquet"])
def test_predictions_in_pieces_are_those_of_the_whole(fitted, tmp_path, shell, name) -> None:
    keep = ["--keep", "id", "note", "x"]
    said, read = [], []
    for source, flags in ((fitted / "new.parquet", []), (fitted / "new", ["--stream"])):
        place = tmp_path / f"{source.name}-{name}"
        told = shell.told("predict", fitted / "fit", source, "--out", place, *keep, *flags)
        # A stream is neither scored nor compared with training.
        said.append({key: value for key, value in told.items() if key not in NOT_OF_STREAMS})
        read.append(pd.read_parquet(place) if "parquet" in name else pd.read_csv(place))
    assert said[0] == said[1]
    assert said[1]["unseen"]["kind"]["violet"] == 1
    assert said[1]["missing"]["kind"] == 1
    assert said[1]["rows"] == 400
    pd.testing.assert_frame_equal(*read, check_dtype="parquet" not in name, rtol=1e-5, atol=1e-5)
    assert (read[1]["id"] == np.arange(400) + 2**40).all()
    assert read[1]["note"].isna().sum() == 150


def test_a_stream_is_written_to_standard_output(fitted, tmp_path, monkeypatch, capsys, shell) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["predict", str(fitted / "fit"), str(fitted / "new"), "--stream"]
    assert cli.main([*words, "--out", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 401
    assert lines[0].startswith("row,prediction,std")
    assert lines[-1].startswith("400,")
    assert list(tmp_path.iterdir()) == []
    assert "name a file with --out" in shell.refused(*words, "--out", "-", "--json")
    assert shell.told(*words)["out"] == "new.predictions.csv"
    assert "a file of the table itself" in shell.refused(*words, "--out", fitted / "new" / "c.parquet")


def test_predicting_takes_no_more_memory_for_more_rows(fitted, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 50)
    sizes = []
    predict_stream(load_table_model(fitted / "fit"), TableStream(fitted / "new"), lambda part: sizes.append(len(part)))
    assert sum(sizes) == 400
    assert max(sizes) == 50


@pytest.mark.parametrize("damage", ["inside", "end", "type", "text", "column"])
def test_a_stream_that_breaks_leaves_what_was_there(fitted, tmp_path, shell, damage) -> None:
    frame = pd.read_parquet(fitted / "new.parquet")
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / "b.parquet"
    frame.to_parquet(tmp_path / "new" / "a.parquet", row_group_size=100)
    changed = {
        "type": frame.assign(x="many"),
        "text": frame.assign(sold=frame["sold"].astype(str).where(frame["number"] != 77, "soon")),
        "column": frame.drop(columns="kind"),
    }.get(damage, frame)
    changed.to_parquet(path, row_group_size=100)
    if damage in ("text", "column"):
        (tmp_path / "new" / "a.parquet").unlink()
    contents = bytearray(path.read_bytes())
    if damage == "inside":
        start = len(contents) // 2
        contents[start : start + 3000] = bytes(3000)
    path.write_bytes(contents[:-50] if damage == "end" else contents)
    (tmp_path / "out.csv").write_text("old")
    words = ["predict", fitted / "fit", tmp_path / "new", "--stream", "--out", tmp_path / "out.csv"]
    told = shell.refused(*words, "--overwrite")
    said = {
        "inside": "b.parquet is cut short or damaged",
        "end": "b.parquet is cut short or damaged",
        "type": "column 'x' is text in b.parquet and numbers in a.parquet",
        "text": "column 'sold' has 'soon' in data row 78",
        "column": "the table has no column 'kind'",
    }
    assert said[damage] in told
    assert (tmp_path / "out.csv").read_text() == "old"
    assert {each.name for each in tmp_path.iterdir()} == {"new", "out.csv"}


def test_what_is_not_parquet_is_said_so(fitted, tmp_path, shell) -> None:
    (tmp_path / "new.csv").write_text("x,y\n1,2\n")
    for words in (["predict", str(fitted / "fit")], ["fit", "--target", "y"]):
        verb, *rest = words
        assert "new.csv is neither Parquet nor Arrow" in shell.refused(
            verb, *rest, tmp_path / "new.csv", "--stream", "--out", tmp_path / "o"
        )


# Estimators


@pytest.fixture
def numbers_only(tmp_path):
    place = tmp_path / "numbers.parquet"
    frame = table(600, seed=3).drop(columns="kind").dropna()
    frame.assign(label=np.where(frame["x"] > 5, "high", "low"), code=(frame["x"] > 5) * 2 + 1).to_parquet(
        place, row_group_size=100
    )
    return place


QUICK = {"n_members": 2, "hidden_layer_sizes": (16,), "max_iter": 12, "batch_size": 32, "random_state": 0}


def test_a_regressor_fits_a_stream(numbers_only) -> None:
    frame = pd.read_parquet(numbers_only)
    model = ConcreteDropoutRegressor(**QUICK).fit_stream(numbers_only, "y", columns=["x", "number"])
    mean, std = model.predict(frame[["x", "number"]], return_std=True)
    whole = ConcreteDropoutRegressor(**QUICK).fit(frame[["x", "number"]], frame["y"])
    found = mean, whole.predict(frame[["x", "number"]])
    error, usual = (np.sqrt(np.mean((each - frame["y"]) ** 2)) for each in found)
    assert error == pytest.approx(usual, rel=0.1)
    assert std.mean() == pytest.approx(usual, rel=0.15)
    assert (model.n_iter_, model.n_features_in_, list(model.feature_names_in_)) == (12, 2, ["x", "number"])
    assert model.dropout_rates_.shape == (2, 2)


def test_a_column_of_a_stream_that_never_varied_has_no_effect(tmp_path) -> None:
    frame = pd.DataFrame({"x": np.arange(200) % 7.0, "year": 2024.0, "y": np.arange(200) / 7})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    model = ConcreteDropoutRegressor(**QUICK | {"max_iter": 1}).fit_stream(tmp_path / "rows.parquet", "y")
    with pytest.warns(UserWarning, match="never varied there, 'year'"):
        changed = model.predict(frame[["x"]].assign(year=2025.0))
    np.testing.assert_array_equal(changed, model.predict(frame[["x", "year"]]))


@pytest.mark.parametrize("target", ["label", "code"])
def test_a_classifier_fits_a_stream(numbers_only, target) -> None:
    frame = pd.read_parquet(numbers_only)
    model = ConcreteDropoutClassifier(**QUICK | {"max_iter": 4}).fit_stream(numbers_only, target, columns=["x"])
    assert list(model.classes_) == sorted(frame[target].unique())
    assert model.score(frame[["x"]], frame[target]) > 0.95


def test_labels_of_a_stream_are_those_that_it_spells(numbers_only) -> None:
    frame = pd.read_parquet(numbers_only)
    for labels in (("high", "HIGH"), ("None", "01"), ("1", "01")):
        frame.assign(label=np.where(frame["x"] > 5, *labels)).to_parquet(numbers_only)
        model = ConcreteDropoutClassifier(**QUICK | {"max_iter": 1}).fit_stream(numbers_only, "label", columns=["x"])
        assert list(model.classes_) == sorted(labels)


def test_a_stream_leaves_the_random_state_and_what_grew_before(numbers_only) -> None:
    frame = pd.read_parquet(numbers_only)
    model = ConcreteDropoutRegressor(**QUICK | {"max_iter": 1})
    model.partial_fit(frame[["x"]].iloc[:40], frame["y"].iloc[:40])
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    model.fit_stream(numbers_only, "y", columns=["number"])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert not hasattr(model, "_seen")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f, {}, "column 'label' must hold numbers, got '(low|high)'"),
        (lambda f: f, {"columns": ["label"]}, "column 'label' must hold numbers"),
        (lambda f: f.assign(x=f["x"].mask(f["number"] == 9)), {"columns": ["x"]}, "'x' must have no missing .* got 1"),
        (lambda f: f.assign(x=f["x"].mask(f["number"] == 9, np.inf)), {"columns": ["x"]}, "'x' has 'inf' in data row"),
        (lambda f: f, {"columns": ["X"]}, r"no column 'X' \(did you mean x\?\)"),
        (lambda f: f, {"columns": ["y"]}, "`columns` must name columns other than the target 'y'"),
        (lambda f: f.head(6), {"columns": ["x"]}, "at least 4 rows beside the held-out ones, got 0"),
        (lambda f: f.assign(y=f["label"]), {"columns": ["x"]}, "column 'y' must hold numbers"),
    ],
)
def test_streams_that_estimators_cannot_take(numbers_only, change, options, message) -> None:
    change(pd.read_parquet(numbers_only)).to_parquet(numbers_only)
    model = ConcreteDropoutRegressor(**QUICK)
    with pytest.raises(ValueError, match=message):
        model.fit_stream(numbers_only, "y", **options)
    assert not hasattr(model, "ensemble_")


def test_tiny_numbers_of_a_stream_vary_and_targets_without_a_variance_are_refused(numbers_only) -> None:
    frame = pd.read_parquet(numbers_only)
    frame.to_parquet(numbers_only)
    model = ConcreteDropoutRegressor(**QUICK).fit_stream(numbers_only, "y", columns=["x"])
    frame.assign(x=frame["x"] * 2.0**-900).to_parquet(numbers_only)
    of_tiny = ConcreteDropoutRegressor(**QUICK).fit_stream(numbers_only, "y", columns=["x"])
    np.testing.assert_array_equal(of_tiny.predict(frame[["x"]] * 2.0**-900), model.predict(frame[["x"]]))
    frame.assign(y=frame["y"] * 2.0**-900).to_parquet(numbers_only)
    with pytest.raises(ValueError, match=r"standard deviation of .*e-271.* in a smaller unit"):
        ConcreteDropoutRegressor(**QUICK).fit_stream(numbers_only, "y", columns=["x"])


SHARED = """
import sys, torch
from builders.processes import fork
from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.training.processes import process_group
fork()
model = ConcreteDropoutRegressor(n_members=1, hidden_layer_sizes=(8,), max_iter=2, batch_size=64)
model.fit_stream(sys.argv[1], "y", columns=["x"])  # without a seed, which processes must agree on
torch.save(dict(model.ensemble_.state_dict()), f"{sys.argv[2]}/{process_group().rank}.pt")
"""


@pytest.mark.slow
def test_processes_share_the_stream_of_an_estimator(numbers_only, tmp_path) -> None:
    (tmp_path / "job.py").write_text(SHARED)
    run_two(tmp_path / "job.py", numbers_only, tmp_path)
    one, other = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_number_below_zero_outside_the_sample_is_seen(path) -> None:
    frame = table().assign(y=np.random.default_rng(0).exponential(2.0, NUM_ROWS))
    frame.to_parquet(path, row_group_size=100)
    found, schema, _ = prepared(TableStream(path))
    assert schema.target.positive
    frame.loc[np.setdiff1d(frame.index, found.rows)[0], "y"] = -1.0
    frame.to_parquet(path, row_group_size=100)
    again, schema, _ = prepared(TableStream(path))
    assert again.sample["y"].min() >= 0
    assert not schema.target.positive


def test_a_part_with_fewer_rows_than_its_header_says_is_named_once(path) -> None:
    stream = TableStream(path)
    with pytest.raises(TableError) as raised:
        list(stream.read(replace(stream.pieces[2], num_rows=120)))
    assert str(raised.value) == f"{path} has 100 rows in part 3, and by its header 120: copy it or write it again"


def test_labels_and_settings_that_do_not_go_with_a_stream(numbers_only) -> None:
    frame = pd.read_parquet(numbers_only)
    frame.assign(label="one").to_parquet(numbers_only)
    with pytest.raises(ValueError, match="2 classes"):
        ConcreteDropoutClassifier(**QUICK).fit_stream(numbers_only, "label", columns=["x"])
    with pytest.raises(ValueError, match="`early_stopping` must be False for a stream"):
        ConcreteDropoutRegressor(early_stopping=True).fit_stream(numbers_only, "y")
    numbers_only.write_bytes(numbers_only.read_bytes()[:-30])
    with pytest.raises(ValueError, match="cut short or damaged"):
        ConcreteDropoutRegressor(**QUICK).fit_stream(numbers_only, "y")
