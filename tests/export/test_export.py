"""Exported models do what the model does, and a file that does not is never left."""

import io
import itertools
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from torch import nn

from gumdrop import dropout_rates, learn_dropout, predict_classification, predict_regression
from gumdrop.export import ExportError, export_model
from gumdrop.export.draws import Draws
from gumdrop.export.graphs import Graph, ModelGraph
from gumdrop.export.model import check
from gumdrop.layers import dropout_blocks
from gumdrop.layers.site import bernoulli_factors
from gumdrop.likelihoods import Gaussian

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `export`")
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


def regression(p=0.3, **options):
    torch.manual_seed(3)
    return learn_dropout(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)), p=p, **options)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def metadata(path):
    return json.loads(session(path).get_modelmeta().custom_metadata_map["gumdrop"])


def outputs(path, **feed):
    made = session(path)
    names = [value.name for value in made.get_outputs()]
    return dict(zip(names, made.run(None, {name: x.numpy() for name, x in feed.items()}), strict=True))


def twin(model, x, noise):
    """Evaluate a model once for each row of noise, handing each site its columns."""
    sites = [block.site for block in dropout_blocks(model)]
    draws = []
    for row in noise:
        parts = row.split([site.num_units for site in sites])
        for site, part in zip(sites, parts, strict=True):
            site.factor_source = bernoulli_factors(lambda _, rows, part=part: part.unsqueeze(0))
        draws.append(model.eval()(x).detach())
    for site in sites:
        site.factor_source = None
    return torch.stack(draws).double().numpy()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of ONNX that takes its noise."""
    place = tmp_path_factory.mktemp("export") / "model.onnx"
    return export_model(regression(), X, place, variant="noise", metadata={"by": "us"})


def test_the_same_noise_gives_the_answer_of_a_plain_loop(path) -> None:
    noise = torch.rand(20, 11)  # the file was made with 100 draws
    draws = twin(regression(), X, noise)
    mean, variance = draws[..., :2], np.exp(draws[..., 2:])
    got = outputs(path, x=X, noise=noise)
    np.testing.assert_allclose(got["mean"], mean.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got["epistemic"], mean.var(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got["aleatoric"], variance.mean(0), rtol=1e-4)
    assert metadata(path)["noise"] == {"0": 3, "2": 8}


@pytest.mark.parametrize("per_unit", [False, True])
def test_moments_are_those_of_the_library(tmp_path, per_unit) -> None:
    model, extra = regression(per_unit=per_unit), {"gumdrop.json": ""}
    path = export_model(model, X, tmp_path / "model.pt2", to="pt2", num_samples=400)
    program = torch.export.load(io.BytesIO(path.read_bytes()), extra_files=extra).module()
    assert json.loads(extra["gumdrop.json"])["outputs"] == ["mean", "epistemic", "aleatoric"]
    torch.manual_seed(5)
    got, want = program(X), predict_regression(model, X, num_samples=400, seed=1)
    torch.testing.assert_close(got["mean"], want.mean, atol=0.4 * want.epistemic.max() ** 0.5, rtol=0)
    torch.testing.assert_close(got["epistemic"], want.epistemic, rtol=0.6, atol=0)
    torch.testing.assert_close(got["aleatoric"], want.aleatoric, rtol=0.2, atol=0)
    assert program(X[:1])["mean"].shape == (1, 2)
    assert not torch.equal(program(X)["mean"], got["mean"])


class Recurrent(nn.Module):
    """Two recurrent layers whose own dropout learned rates take over."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def test_dropout_between_layers_that_is_learned_by_now_is_no_obstacle(tmp_path) -> None:
    torch.manual_seed(3)
    model, x, noise = learn_dropout(Recurrent()), torch.randn(5, 4, 3), torch.rand(20, 11)
    path = export_model(model, x, tmp_path / "model.pt2", to="pt2", variant="noise")
    found = torch.export.load(path).module()(x, noise)["mean"].detach()
    np.testing.assert_allclose(found, twin(model, x, noise)[..., :1].mean(0), rtol=1e-4, atol=1e-6)


def test_classes_through_convolutions_and_plain_dropout(tmp_path) -> None:
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(16, 3)]
    model = learn_dropout(nn.Sequential(*layers), types=nn.Linear, p=0.2)
    x = torch.randn(5, 1, 4, 4)
    path = export_model(model, x, tmp_path / "model.onnx", likelihood="categorical", num_samples=500)
    got = outputs(path, x=x)
    want = predict_classification(model, x, num_samples=2000, seed=0)
    np.testing.assert_allclose(got["probabilities"], want.probabilities, atol=0.04)
    np.testing.assert_allclose(got["mutual_information"], want.mutual_information, atol=0.04)
    np.testing.assert_allclose(
        got["predictive_entropy"] - got["expected_entropy"], got["mutual_information"], atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.01, 0.3])
def test_moments_without_draws_are_those_of_the_library(tmp_path, p: float) -> None:
    model = regression(p)
    path = export_model(model, X, tmp_path / "model.pt2", to="pt2", variant="deterministic")
    program, want = torch.export.load(path).module(), predict_regression(model, X[:3], method="moments")
    for _ in range(2):
        got = program(X[:3])
        for name in ("mean", "epistemic", "aleatoric"):
            torch.testing.assert_close(got[name], getattr(want, name))


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.recurrent = nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.recurrent(self.attention(x))[0][:, -1])


@pytest.mark.slow
def test_attention_and_recurrence_with_one_draw_a_call(tmp_path) -> None:
    model = learn_dropout(Sequence(), recurrent=True, p=0.2)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    path = export_model(model, torch.randn(4, 3, 4), tmp_path / "model.onnx", variant="draw", likelihood=None)
    x = torch.randn(3, 3, 4)
    assert outputs(path, x=x)["output"].shape == (3, 2)
    assert torch.backends.mha.get_fastpath_enabled() == fast_path
    made = session(path)
    first, second = made.run(None, {"x": x.numpy()})[0], made.run(None, {"x": x.numpy()})[0]
    assert not np.array_equal(first, second)


def test_inputs_by_name_and_a_model_that_returns_logits(tmp_path) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(7, 3), nn.Linear(3, 2)

        def forward(self, tokens, weight):
            return {"logits": self.head((self.embedding(tokens) * weight.unsqueeze(-1)).sum(1))}

    inputs = {"tokens": torch.randint(7, (4, 5)), "weight": torch.rand(4, 5)}
    model = learn_dropout(Pair(), p=0.4)
    path = export_model(model, inputs, tmp_path / "m.pt2", to="pt2", likelihood="categorical", variant="noise")
    noise = torch.rand(30, 3)
    got = torch.export.load(path).module()(*inputs.values(), noise)
    summed = (model.embedding(inputs["tokens"]) * inputs["weight"].unsqueeze(-1)).sum(1)
    want = [model.head.weight @ (row * (drop >= 0.4) / 0.6) + model.head.bias for drop in noise for row in summed]
    probabilities = torch.stack(want).view(30, 4, 2).softmax(2).mean(0)
    torch.testing.assert_close(got["probabilities"], probabilities.detach())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")
def test_a_compiled_library(tmp_path) -> None:
    path = export_model(regression(), X, tmp_path / "model.pt2", to="aoti", variant="noise")
    compiled = torch._inductor.aoti_load_package(str(path))
    noise = torch.rand(20, 11)
    got = compiled(X, noise)
    np.testing.assert_allclose(got["mean"], twin(regression(), X, noise)[..., :2].mean(0), rtol=1e-4, atol=1e-6)
    assert json.loads(compiled.loader.get_metadata()["gumdrop"])["variant"] == "noise"


def test_the_file_says_what_it_is_and_not_where_it_was_made(path, tmp_path) -> None:
    facts = metadata(path)
    assert facts["rates"] == pytest.approx(dropout_rates(regression()))
    assert facts | {"format": 1, "by": "us", "variant": "noise", "likelihood": "gaussian"} == facts
    assert facts["outputs"] == ["mean", "epistemic", "aleatoric"]
    assert b"/site-packages/" not in path.read_bytes()
    assert b"forward" not in path.read_bytes()
    extra = {"gumdrop.json": ""}
    program = export_model(regression(), X, tmp_path / "m.pt2", to="pt2", variant="draw")
    torch.export.load(io.BytesIO(program.read_bytes()), extra_files=extra)
    drawn = json.loads(extra["gumdrop.json"])
    assert (drawn["variant"], drawn["num_samples"], drawn["outputs"]) == ("draw", 1, ["mean", "variance"])


def test_nothing_is_left_behind_in_the_model_or_the_random_state(tmp_path) -> None:
    model = regression().train()
    keys, state = list(model.state_dict()), torch.get_rng_state()
    export_model(model, X, tmp_path / "model.pt2", to="pt2")
    assert torch.equal(state, torch.get_rng_state())
    assert list(model.state_dict()) == keys
    assert all(module.training for module in model.modules())
    assert all(block.site.factor_source is None for block in dropout_blocks(model))


# What is refused


class Bessel(nn.Sequential):
    def forward(self, x):
        return torch.special.bessel_j0(super().forward(x))


class Branch(nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


class AcrossRows(nn.Sequential):
    def forward(self, x):
        return super().forward(x.cumsum(0))


class Two(nn.Sequential):
    def forward(self, x):
        return super().forward(x), x


class OneExample(nn.Sequential):
    def forward(self, x):
        return super().forward(x).reshape(6, 2)


def converted(kind):
    return learn_dropout(kind(nn.Linear(3, 2)), p=0.3)


ROWS = "`inputs` must hold tensors with the same number of rows"


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (converted(Bessel), {}, r"operator prims\.bessel_j0"),
        (converted(Branch), {}, r"cannot be traced by torch\.export.*data-dependent"),
        (converted(OneExample), {}, r"cannot be traced|dimension 0"),
        (nn.Linear(3, 2), {}, r"no dropout.*`gumdrop\.learn_dropout\(model\)`"),
        (converted(Two), {"to": "pt2"}, r"^`model` must return a tensor.*got tuple"),
        (nn.Sequential(nn.Linear(3, 2), nn.AlphaDropout(0.2)), {}, r"^1 \(AlphaDropout\) drops by itself"),
        (nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.2)), {"variant": "noise"}, r"nn\.Dropout modules with noise"),
        (converted(nn.Sequential), {"variant": "deterministic", "likelihood": None}, r"needs `likelihood='gaussian'`"),
        (converted(Branch), {"variant": "deterministic"}, r"is a Branch, whose moments are not known"),
        (converted(nn.Sequential), {"num_samples": 1}, r"`num_samples` must be at least 2.*got 1"),
        (learn_dropout(nn.Linear(3, 2), p=1e-9), {"to": "pt2"}, r"same outputs, so its masks are frozen"),
        (converted(AcrossRows), {"to": "pt2", "num_samples": 50}, r"differs from that of .*rows influence each other"),
        *((regression(), {"inputs": inputs}, ROWS) for inputs in (X[:1], (X, X[:3]), (), torch.tensor(1.0), ("text",))),
        (regression(), {"variant": "mode"}, "one of 'draw', 'moments', 'noise', 'deterministic', got 'mode'"),
        (regression(), {"likelihood": "poisson"}, "one of 'gaussian', 'categorical', .*, got 'poisson'"),
        (regression(), {"to": "tflite"}, "`to` must be one of 'onnx', 'pt2', 'aoti', got 'tflite'"),
    ],
)
def test_what_cannot_be_exported_is_told_and_leaves_nothing(tmp_path, model, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        export_model(model, **{"inputs": X, "path": tmp_path / "model.out"} | options)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_keeps_the_file_from_before(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model.pt2"
    path.write_text("from before")
    monkeypatch.setattr(
        "gumdrop.export.model._compare_in_mean", lambda *_: (_ for _ in ()).throw(ExportError("differs"))
    )
    with pytest.raises(ExportError, match="differs"):
        export_model(regression(), X, path, to="pt2")
    assert [place.read_text() for place in tmp_path.iterdir()] == ["from before"]


def test_a_file_that_computes_something_else_is_refused() -> None:
    graph = Graph("moments", 5)
    graph.input_names = ["x"]
    graph.reference = lambda inputs, seed: {"mean": inputs[0] + torch.full((6, 1), 0.01 * (seed % 3))}
    generator = np.random.default_rng(0)

    def runner(shift):
        return lambda inputs: [inputs[0].numpy() + shift + 0.01 * generator.integers(3)]

    check(runner(0.0), graph, [X[:, :1]], ["mean"])
    with pytest.raises(ExportError, match="`mean` differs"):
        check(runner(0.5), graph, [X[:, :1]], ["mean"])
    calls = itertools.count()

    def without_a_number(inputs):
        y = inputs[0].numpy() + np.float32(0.01 * (next(calls) % 3))
        return [np.where(np.arange(len(y))[:, None] == 2, np.nan, y)]

    with pytest.raises(ExportError, match="`mean` differs from that of the model by nan"):
        check(without_a_number, graph, [X[:, :1]], ["mean"])
    with pytest.raises(ExportError, match=r"does not run: .no such input"):
        check(lambda _: (_ for _ in ()).throw(KeyError("no such input")), graph, [X], ["mean"])


@pytest.mark.parametrize("by_channel", [False, True])
def test_plain_dropout_of_a_graph_drops_what_its_module_does(by_channel) -> None:
    model = nn.Sequential(nn.Dropout2d(0.3) if by_channel else nn.Dropout(0.3))
    y = Draws(model)([torch.ones(50, 8, 3, 3)], torch.rand(2, 0)).flatten(0, 2).flatten(1)
    assert sorted(y.unique().tolist()) == pytest.approx([0, 1 / 0.7])
    assert bool((y == y[:, :1]).all()) is by_channel
    assert (y[:, 0] == 0).float().mean().item() == pytest.approx(0.3, abs=0.08)


def test_noise_that_a_float_cannot_hold_keeps_its_density() -> None:
    """As in the library, a variance of 0 or infinity is the nearest that has a density."""
    model = regression()
    model[2].bias.data.copy_(torch.tensor([0.0, 0.0, 200.0, -200.0]))
    graph = ModelGraph(model, X, variant="draw", num_samples=1, likelihood=Gaussian())
    variance = graph(X)["variance"]
    torch.testing.assert_close(variance, predict_regression(model, X, num_samples=1).aleatoric)
    assert variance.min() > 0
    assert variance.isfinite().all()


def test_without_the_extra_the_way_out_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ExportError, match=r"ONNX needs onnxruntime: pip install 'gumdrop\[export\]'"):
        export_model(regression(), X, tmp_path / "model.onnx")
