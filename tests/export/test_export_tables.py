"""Exported table models: columns in their own units in, units of the target out, and served without torch."""

import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pandas._libs.parsers import STR_NA_VALUES

from gumdrop.cli import main
from gumdrop.export import ExportError, export_table, serving
from gumdrop.export.table_encoding import TableEncoder
from gumdrop.export.table_graph import TableGraph, log_ndtr
from gumdrop.tables import load_table_model, read_table
from gumdrop.tables.fitting.fit import fit_table
from gumdrop.tables.prediction import predict_frame
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.reading.spelling import MISSING_SPELLINGS, Mark, spelled_numbers
from gumdrop.tables.reading.times import parse_dates
from gumdrop.tables.schema.cells import index_labels, labels_of
from gumdrop.tables.schema.columns import CategoryColumn, MeasuredColumn
from gumdrop.tables.schema.schema import TableSchema, Target

from builders.tables import QUICK, write_table
from builders.waiting import HANG

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `export`")

DOCS = Path(__file__).parents[2] / "docs"
SMALL = replace(QUICK, num_members=2, epochs=3, compare=False)
ROWS = pd.DataFrame(
    {
        "colour": ["red", "violet", None, " blue"],
        "size": [41.5, 60.0, np.nan, 55.25],
        "sold": ["2024-02-29", "31/12/1969 23:59:07", None, "7/3/2025 06:30"],
        "garden": ["YES", "no", None, "maybe"],
    }
)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    frame = pd.read_csv(write_table(place / "houses.csv"))
    frame.loc[[3, 9, 60, 61, 62, 63], "colour"] = None
    sold = pd.date_range("2021-03-05 08:00", periods=120, freq="271h").strftime("%d/%m/%Y %H:%M")
    frame = frame.assign(sold=sold, garden=["Yes", "no", "no"] * 40)
    frame.loc[[3, 50], "sold"] = None
    frame.to_csv(place / "houses.csv", index=False)
    for target, other in (("price", "grade"), ("grade", "price")):
        fit_table(place / "houses.csv", target, place / target, reading=Reading(drop=(other,)), settings=SMALL)
    export_table(load_table_model(place / "price"), place / "price.onnx", num_samples=300)
    export_table(load_table_model(place / "grade"), place / "noise.onnx", variant="noise")
    return place


def records(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def test_the_file_encodes_as_the_schema_does_and_says_what_it_was_made_of(place) -> None:
    model = load_table_model(place / "price")
    served = serving.ServedModel(place / "price.onnx")
    frame = pd.concat([read_table(place / "houses.csv").frame, ROWS], ignore_index=True)
    encode = TableGraph(model, variant="moments", num_samples=9).encode
    ours = encode(torch.from_numpy(served.encode(records(frame)))).numpy()
    np.testing.assert_array_equal(ours, model.schema.encode_inputs(frame).x)
    assert model.schema.columns[2].parts == ("season", "weekday", "hour")
    assert (ours[-2, 6:12] == 0).all()
    facts = served.metadata
    assert (facts["schema"], facts["num_samples"]) == (model.schema.to_json(), 300)
    assert facts["noise"].keys() == facts["rates"].keys()
    assert len(facts["rates"]) == 4
    assert all(0 < p < 1 for p in facts["rates"].values())


DAYS = {"mean": 15000.0, "std": 9000.0, "median": 14321.5, "least": -4000.0, "most": 30000.0}


@pytest.mark.parametrize("parts", [(), ("hour",), ("season", "weekday", "hour")])
def test_dates_are_encoded_bit_for_bit(parts) -> None:
    dates = MeasuredColumn(name="b", kind="date", order="day-first", parts=parts, **DAYS)
    columns = (CategoryColumn("a", ("x", "y")), dates, MeasuredColumn(name="c", kind="number", **DAYS))
    schema = TableSchema(columns, Target("price", "regression"))
    rng = np.random.default_rng(0)
    seconds = rng.integers(-(10**9), 3 * 10**9, 2000)
    seconds[:50] = seconds[:50] // 86400 * 86400  # midnight, where a day begins
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y"], 2000), "b": pd.to_datetime(seconds, unit="s"), "c": seconds / 7e4}
    )
    frame.loc[::9, "b"] = pd.NaT
    raw = np.column_stack([frame["a"] == "y", parse_dates(frame["b"], "day-first"), frame["c"]])
    encoded = TableEncoder(schema)(torch.from_numpy(raw)).numpy()
    np.testing.assert_array_equal(encoded, schema.encode_inputs(frame).x)


def served_with(column, decimal=None, unit=None):
    served, marks = object.__new__(serving.ServedModel), {column.name: Mark(unit=unit)} if unit else {}
    served.metadata = {"schema": TableSchema((column,), Target("price", "regression"), decimal, marks).to_json()}
    return served


@pytest.mark.parametrize(
    ("order", "texts"),
    [
        (
            "year-first",
            [
                "2024-3-1",
                "1969/12/31 23:59",
                "2024.02.29T06:30:15.5Z",
                "2024-02-29 06:30:15+00",
                "2024-02",
                "2024-Q3",
                "2024 Q1",
                "Q3 2024",
                "2024/02",
                "2/2024",
                "11-2024",
                "2024-03-01 12:05 AM",
                "2024-03-01 1:05:07 p.m. Z",
                "2024-W08",
                "20240229",
                "20240229.0",
            ],
        ),
        ("day-first", ["31.1.2024", "1/2/2024 7:05", "2024-01-02", "01-02-2024 00:30:59 +05:30"]),
        ("month-first", ["1/31/2024", "1/2/2024 17:05:09", "3/31/2024 12:00:00 PM", "2024-01-02T00:00-0330"]),
    ],
)
def test_serving_reads_dates_as_training_does(order, texts) -> None:
    served = served_with(MeasuredColumn(name="sold", kind="date", order=order, parts=(), **DAYS))
    got = served.encode([{"sold": text} for text in texts])[:, 0]
    np.testing.assert_array_equal(got, parse_dates(pd.Series(texts), order))
    stamp = pd.Timestamp("2024-02-29 18:00")
    kinds = [stamp, stamp.to_pydatetime(), stamp.to_datetime64(), str(stamp), stamp.tz_localize("UTC")]
    assert {day.item() for day in served.encode([{"sold": value} for value in kinds])} == {19782.75}
    assert served.encode([{"sold": stamp.date()}]) == 19782
    assert np.isnan(served.encode([{"sold": pd.NaT}, {"sold": "?"}, {"sold": None}])).all()
    for text in (
        "30.2.2024",
        "13/13/2024",
        "1/2/24",
        "19782.75",
        "2024-01-02 25:00",
        "2024-01-02 13:00 PM",
        "31.12.2024x",
    ):
        with pytest.raises(serving.ServingError, match=f"'sold' has '{text}', which is not a date .* its {order[:3]}"):
            served.encode([{"sold": text}])


@pytest.mark.parametrize(
    ("labels", "values", "codes"),
    [
        (("No", "yes", ""), ("NO", "Yes", "YES", " no", "n"), [0, 1, 1, 0, -1]),
        (("false", "true"), (True, False, "TRUE"), [1, 0, 1]),
        (("Red", "yes"), ("Red", "red", "YES"), [0, -1, -1]),
        (("2024-03-01", "7"), ("2024-03-01 00:00:00", "2024-03-01", "07", 7.0), [0, 0, -1, 1]),
        (("007", "12.5"), ("7", 7.0, "0007", "12.50", "12,5", "1.25E1"), [0, 0, 0, 1, -1, 1]),
        (("007", "7", "A1"), ("007", "7", "07", 7.0), [0, 1, -1, 1]),
    ],
)
def test_serving_knows_labels_as_the_schema_does(labels, values, codes) -> None:
    served = served_with(CategoryColumn("garden", labels))
    assert served.encode([{"garden": value} for value in values])[:, 0].tolist() == codes
    assert index_labels(labels_of(pd.Series(values, dtype=object)), labels).tolist() == codes
    assert {*STR_NA_VALUES, *MISSING_SPELLINGS} <= serving.MISSING_WORDS


@pytest.mark.parametrize(
    ("decimal", "unit", "texts"),
    [
        (",", "€", ["1.234", "1.234.567,5", "-0,25", "7", "€ 3,50", "-3,5€", "1 234,5"]),
        (".", "%", ["1,234", "1,234,567.5", "-0.25", "7", "12 %", ".5"]),
        (".", "m²", ["1,234 m²", "\u22128m²", "7"]),
        (".", "", ["(13.21)", "( 1,234.5 )", "13.21", "-2"]),
        (",", "€", ["(1.234,5) €", "€ (7)", "(3,5 €)", "-€ 3", "€ -3"]),
        (".", "USD", ["USD 27", "27 USD", "USD (1,300.50)", "(5) USD", "USD -5", "-USD 5", "7"]),
        (",", "R$", ["R$ 1.234,50", "(R$ 3)", "7"]),
    ],
)
def test_serving_reads_numbers_as_training_does(decimal, unit, texts) -> None:
    served = served_with(MeasuredColumn(name="size", kind="number", **DAYS), decimal, unit)
    got = served.encode([{"size": text} for text in texts])[:, 0]
    np.testing.assert_array_equal(got, spelled_numbers(pd.Series(texts), decimal))
    assert served.encode([{"size": 1.234}, {"size": np.float64(2)}])[:, 0].tolist() == [1.234, 2]
    for strange in ("1,2,3", "5x", "5 m", "$5", "(-5)", "+-5", "5 (2)", "1.5" if decimal == "," else "1,5"):
        what = f"'{re.escape(strange)}', which is not a number{' in ' * bool(unit)}{re.escape(unit)}"
        with pytest.raises(serving.ServingError, match=what):
            served.encode([{"size": strange}])


def test_served_predictions_are_those_of_predict(place) -> None:
    frame = read_table(place / "houses.csv").frame
    served = serving.ServedModel(place / "price.onnx").predict(records(frame))
    want = predict_frame(load_table_model(place / "price"), frame).frame
    assert served["mean"].shape == (120, 1)
    error = served["mean"][:, 0] - want["prediction"]
    assert abs(error).max() < 2 * want["epistemic_std"].max()
    assert abs(error.mean()) < 0.5 * want["epistemic_std"].mean()
    np.testing.assert_allclose(np.sqrt(served["aleatoric"][:, 0]), want["aleatoric_std"], rtol=0.1)
    np.testing.assert_allclose(np.sqrt(served["epistemic"]).mean(), want["epistemic_std"].mean(), rtol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "std"), [(1e8 + 0.123, 1e-2), (4e-12, 1e-12)])
def test_targets_far_from_0_or_near_it_keep_their_digits(place, tmp_path, monkeypatch, mean, std) -> None:
    model, path = load_table_model(place / "price"), tmp_path / "model.onnx"
    target = replace(model.schema.target, mean=mean, std=std)
    export_table(replace(model, schema=replace(model.schema, target=target)), path, variant="noise")
    served, graph = serving.ServedModel(path), TableGraph(model, variant="noise", num_samples=2)
    noise = torch.rand(2, graph.num_noise)
    with torch.no_grad():
        usual = graph(torch.from_numpy(served.encode(records(ROWS))), noise)["mean"].numpy()
    standardised = (usual - model.schema.target.mean) / model.schema.target.std
    monkeypatch.setattr(served, "predict", partial(served.predict, noise=noise.numpy()))
    means = served.predict(records(ROWS))["mean"]
    np.testing.assert_allclose((means - mean) / std, standardised, rtol=0, atol=1e-3)
    written = io.StringIO()
    serving.write_predictions(served, records(ROWS), written)
    means_as_text = [float(line.split(",")[1]) for line in written.getvalue().splitlines()[1:]]
    np.testing.assert_allclose(means_as_text, means[:, 0], rtol=1e-12)


def test_noise_makes_serving_reproducible(place) -> None:
    served = serving.ServedModel(place / "noise.onnx")
    noise = np.random.default_rng(0).random((50, served.metadata["num_noise"]))
    first, second = (served.predict(records(ROWS), noise=noise) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    np.testing.assert_allclose(first["probabilities"].sum(1), 1, rtol=1e-5)
    assert not np.array_equal(first["probabilities"], served.predict(records(ROWS), noise=1 - noise)["probabilities"])


@pytest.mark.parametrize("variant", ["draw", "deterministic"])
def test_draws_of_all_networks_and_moments_are_near_those_of_many(place, variant) -> None:
    graph = TableGraph(load_table_model(place / "price"), variant=variant, num_samples=1)
    columns = graph.examples(8)
    want = TableGraph(graph.table, variant="moments", num_samples=3000).reference([columns], 0)
    with torch.no_grad():
        if variant == "draw":
            draws = [graph(columns) for _ in range(1000)]
            mean, variance = (torch.stack([draw[name] for draw in draws]) for name in ("mean", "variance"))
            got = {"mean": mean.mean(0), "epistemic": mean.var(0), "aleatoric": variance.mean(0)}
        else:
            got = graph(columns)
    torch.testing.assert_close(got["mean"], want["mean"], rtol=0, atol=0.1 * want["epistemic"].max().item() ** 0.5)
    torch.testing.assert_close(got["epistemic"], want["epistemic"], rtol=0.3, atol=0)
    torch.testing.assert_close(got["aleatoric"], want["aleatoric"], rtol=0.05, atol=0)
    with pytest.raises(ExportError, match="this model predicts classes; export the variant 'noise'"):
        TableGraph(load_table_model(place / "grade"), variant="deterministic", num_samples=1)
    graph.table.ensemble.members[0].register_forward_hook(print)
    with pytest.raises(ExportError, match="have hooks or frozen weights; export what `gumdrop fit` left"):
        TableGraph(graph.table, variant=variant, num_samples=1)


def test_the_noise_of_a_draw_has_the_tail_of_the_model(place) -> None:
    """Log variances differ between the networks, and by the tail."""
    model = load_table_model(place / "price")
    spread = []
    for tail in (0.0, 0.7):
        model.ensemble.noise.tail = torch.tensor([tail])
        graph = TableGraph(model, variant="draw", num_samples=1)
        columns = graph.examples(4)
        with torch.no_grad():
            spread.append(torch.stack([graph(columns)["variance"].log() for _ in range(400)]).var(0))
    torch.testing.assert_close(spread[1] - spread[0], torch.full((4, 1), 0.7**2), rtol=0.25, atol=0)


def test_the_logarithm_of_the_normal_distribution_is_that_of_torch() -> None:
    values = torch.linspace(-60, 8, 6801)
    torch.testing.assert_close(log_ndtr(values), torch.special.log_ndtr(values), rtol=2e-6, atol=1e-6)


BLOCKED = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "pandas", "gumdrop", "onnx", "sklearn", "scipy"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nothing())
sys.argv = sys.argv[1:]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {"__name__": "__main__"})
"""


def serve(*words):
    command = [sys.executable, "-c", BLOCKED, serving.__file__, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG)


def test_serving_needs_numpy_and_onnxruntime_alone(place, tmp_path) -> None:
    done = serve(place / "price.onnx", place / "houses.csv")
    assert done.returncode == 0, done.stderr
    (tmp_path / "out.csv").write_text(done.stdout)
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table) == ["row", "mean", "epistemic", "aleatoric"]
    assert len(table) == 120
    (tmp_path / "short.csv").write_text("size\n3\n")
    done = serve(place / "price.onnx", tmp_path / "short.csv")
    assert (done.returncode, done.stderr) == (1, "error: a row has no column 'colour'; it has size\n")
    assert serve(place / "price.onnx").stderr.startswith("usage:")


def test_serving_reads_a_table_as_predict_does() -> None:
    rows = serving.read_rows(io.StringIO("size ; colour\n1,5; red\n\n;\n"))
    assert rows == [{"size": "1,5", "colour": "red"}, {"size": "", "colour": ""}]
    for line in ("1,2,3", "1"):
        with pytest.raises(serving.ServingError, match=f"line 2 has {len(line.split(','))} cells, its header 2"):
            serving.read_rows(io.StringIO(f"size,colour\n{line}\n"))


RUNTIME = """
export const env = { wasm: {} };
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
const answer = { mean: { data: [1] }, epistemic: { data: [4] }, aleatoric: { data: [5] } };
export const InferenceSession = {
  create: async () => ({ run: async ({ columns }) => { window.fed = [...columns.data]; return answer; } }),
};
"""


def test_the_page_feeds_what_serving_feeds(place, browser) -> None:
    """With a stand-in for onnxruntime-web, which only keeps what it is fed."""
    files = {
        "": ("text/html", (DOCS / "examples" / "browser.html").read_bytes()),
        "ort.wasm.min.mjs": ("text/javascript", RUNTIME.encode()),
        "model.onnx": ("application/octet-stream", (place / "price.onnx").read_bytes()),
    }

    def serve_file(route):
        kind, body = files[route.request.url.removeprefix("http://page.test/")]
        route.fulfill(content_type=kind, body=body)

    page = browser.new_page()
    page.route("http://page.test/**", serve_file)
    page.goto("http://page.test/")
    page.wait_for_function("window.ready")
    served = serving.ServedModel(place / "price.onnx")
    start = page.evaluate("window.fed")
    assert start[2] == pytest.approx(served.metadata["schema"]["columns"][2]["median"], abs=1 / 1440)
    page.select_option("[name=colour]", label="red")
    page.fill("[name=size]", "41.5")
    page.fill("[name=sold]", "2024-02-29T18:00")
    page.select_option("[name=garden]", label="Yes")
    row = {"colour": "red", "size": 41.5, "sold": "29.02.2024 18:00", "garden": "yes"}
    assert settled(page) == served.encode([row])[0].tolist()
    page.fill("[name=sold]", "")
    assert np.isnan(settled(page)).tolist() == [False, False, True, False]
    assert page.inner_text("output") == "price: 1 ± 3\nnot known for lack of data: 2, noise: 2.24"
    page.close()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        (1, 3, "1 ± 3"),
        (1e-9, 2.5e-10, "1.00e-9 ± 2.5e-10"),
        (4.2e-4, 1.3e-4, "4.2e-4 ± 1.3e-4"),
        (413386.2, 1234.5, "413,400 ± 1,200"),
        (12345.6789, 0.00123, "12,345.6789 ± 0.0012"),
        (0, 1, "0 ± 1"),
        (-2.3e-9, 1e-7, "-2e-9 ± 1.0e-7"),
        (1e-9, 0, "1.00e-9 ± 0"),
    ],
)
def test_the_page_writes_as_many_digits_as_are_known(mean, std, words) -> None:
    page = (DOCS / "examples" / "browser.html").read_text()
    code = page[page.index("function short(") : page.index("function sentence(")]
    command = ["node", "-e", f"{code}process.stdout.write(plusMinus({mean}, {std}))"]
    assert subprocess.run(command, capture_output=True, check=True, text=True, encoding="utf-8").stdout == words


def settled(page):
    return page.evaluate("() => new Promise((done) => setTimeout(() => done(window.fed), 50))")


def with_metadata(path, out, facts) -> Path:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(path)
    del model.metadata_props[:]
    if facts is not None:
        onnx.helper.set_model_props(model, {"gumdrop": json.dumps(facts)})
    onnx.save(model, out)
    return out


def test_files_that_cannot_be_served(place, tmp_path) -> None:
    path = place / "price.onnx"
    facts = serving.ServedModel(path).metadata
    (tmp_path / "half.onnx").write_bytes(path.read_bytes()[:5000])
    newer = with_metadata(path, tmp_path / "newer.onnx", facts | {"format": 2, "gumdrop": "9.0"})
    own = with_metadata(path, tmp_path / "own.onnx", {name: facts[name] for name in facts.keys() - {"schema"}})
    for file, message in (
        (newer, r"format 2 \(gumdrop 9\.0\), and this reads up to format 1"),
        (own, "not trained on a table"),
        (with_metadata(path, tmp_path / "foreign.onnx", None), "not written by `gumdrop export`"),
        (tmp_path / "half.onnx", "no whole ONNX file"),
        (tmp_path / "none.onnx", "there is no file"),
    ):
        with pytest.raises(serving.ServingError, match=message):
            serving.ServedModel(file)


@pytest.mark.parametrize(
    ("file", "rows", "options", "message"),
    [
        ("price", [{"size": 3}], {}, "no column 'colour'"),
        ("price", [{"size": "big", "colour": "red"}], {}, "'big', which is not a number"),
        ("price", [{"size": float("inf"), "colour": "red"}], {}, "'inf', which is not finite"),
        ("price", [{"size": 3, "colour": "red", "sold": "2/31/2024"}], {}, "which is not a date with its day first"),
        ("price", [], {}, "no rows"),
        ("price", records(ROWS), {"noise": np.zeros((3, 48))}, "for files of the variant 'noise', this is 'moments'"),
        ("noise", records(ROWS), {}, "needs `noise`"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit(place, file, rows, options, message) -> None:
    with pytest.raises(serving.ServingError, match=message):
        serving.ServedModel(place / f"{file}.onnx").predict(rows, **options)


@pytest.mark.slow
def test_the_command(place, tmp_path, monkeypatch, shell) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["export", str(place / "grade"), "--to", "pt2", "--variant", "draw"]
    assert "grade.pt2" in shell.said(*words)
    program = torch.export.load("grade.pt2").module()
    rows = torch.tensor([[50.0, 0, 19000.3, 1], [60, -1, torch.nan, 0]], dtype=torch.float64)
    assert program(rows)["probabilities"].shape == (2, 2)
    assert "exists already" in shell.refused(*words)
    assert "model.json" in shell.refused(*words[:1], tmp_path, *words[2:], "--out", "new.pt2")
    assert [path.name for path in tmp_path.iterdir()] == ["grade.pt2"]
    members = len(load_table_model(place / "grade").ensemble.members)
    noise = ["--variant", "noise", "--num-samples", str(3 * members), "--out", "noise.pt2"]
    assert main([*words[:4], *noise]) == 0
    inputs = [node.meta["val"] for node in torch.export.load("noise.pt2").graph.nodes if node.op == "placeholder"]
    assert inputs[-1].shape[0] == 3  # draws of each network


def test_a_full_disk_leaves_nothing(place, tmp_path, monkeypatch) -> None:
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="the disk is full"):
        export_table(load_table_model(place / "grade"), tmp_path / "m.pt2", to="pt2", variant="draw")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ExportError, match="`num_samples` must be at least 2"):
        export_table(load_table_model(place / "grade"), tmp_path / "m.pt2", num_samples=1)
