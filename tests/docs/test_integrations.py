"""The recipes on the page of other libraries run, each where its library is installed."""

import ast
import importlib.util
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "integrations.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- from (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)
SECTION = re.compile(r"^## (How do I .*?\?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {title: BLOCK.findall(text) for title, text in SECTION.findall(PAGE)}


def imported(code):
    """The packages that code imports."""
    nodes = list(ast.walk(ast.parse(code)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[0] for name in plain + [node.module for node in nodes if isinstance(node, ast.ImportFrom)]}


def mapie_gives_the_library_s_own_intervals(recipe):
    mean, std = recipe.model.predict(recipe.X_held, return_std=True)
    reach = np.sort(np.abs(recipe.y_held - mean) / std)[int(np.ceil(0.9 * (len(mean) + 1))) - 1]
    mean, std = recipe.model.predict(recipe.X_new, return_std=True)
    np.testing.assert_allclose(recipe.intervals[:, 1, 0], mean + reach * std)
    assert recipe.sets[np.arange(len(recipe.sets)), recipe.kind[3::4]].mean() > 0.7


def skpro_keeps_the_quantiles_and_finds_no_fault(recipe):
    from skpro.utils import check_estimator

    expected = recipe.model.estimator_.predict_quantiles(recipe.X[400:], recipe.LEVELS[[5, 50, 95]])
    for level, quantile in zip(recipe.LEVELS[[5, 50, 95]], expected.T, strict=True):
        np.testing.assert_allclose(recipe.distribution.ppf(level).to_numpy()[:, 0], quantile, rtol=1e-4)
    assert np.isfinite(recipe.distribution.log_pdf(recipe.distribution.mean())).to_numpy().all()
    estimator = recipe.ConcreteDropoutRegressor((8,), n_members=2, max_iter=2, random_state=0)
    named = recipe.X[:50]
    expected = recipe.ConcreteDropoutProba(estimator).fit(named, recipe.y[:50]).predict(named).to_numpy()
    for names in (range(10), [*named.columns[:-1], 7], [1.5, *named.columns[1:]]):
        x, y = (frame[:50].set_axis(columns, axis=1) for frame, columns in ((named, names), (recipe.y, [0])))
        found = recipe.ConcreteDropoutProba(estimator).fit(x, y).predict(x)
        np.testing.assert_array_equal(found.to_numpy(), expected)
    no_docstring = ["test_class_has_doctest_example"]  # the page is one
    results = check_estimator(recipe.ConcreteDropoutProba, tests_to_exclude=no_docstring, verbose=False)
    assert {name: found for name, found in results.items() if found != "PASSED"} == {}


def skops_files_hold_the_model(recipe):
    np.testing.assert_array_equal(recipe.loaded.predict(recipe.X), recipe.model.predict(recipe.X))


def autogluon_predicts_quantiles(recipe):
    assert "ConcreteDropout" in set(recipe.predictor.leaderboard()["model"])
    assert (np.diff(recipe.quantiles.to_numpy(), axis=1) > 0).all()


def scoringbench_takes_the_prediction(recipe):
    x, y = load_diabetes(return_X_y=True)
    wrapper = recipe.ConcreteDropoutWrapper(max_iter=3, n_members=2, hidden_layer_sizes=[8]).fit(x[:400], y[:400])
    np.testing.assert_allclose(wrapper.predict_distribution(x[400:]).mean, wrapper.predict(x[400:]))


def baal_labels_what_it_asked_for(recipe):
    assert len(recipe.digits) == 20 + 2 * 10


def laplace_predicts_classes(recipe):
    torch.testing.assert_close(recipe.probabilities.sum(1), torch.ones(797))
    assert (recipe.probabilities.argmax(1) == recipe.y[1000:]).float().mean() > 0.8


def posteriors_draws_other_weights(recipe):
    assert recipe.weights.keys() == dict(recipe.model.named_parameters()).keys()
    assert recipe.drawn.isfinite().all()
    assert not torch.equal(recipe.drawn, recipe.model(recipe.x))


def mlflow_has_a_rate_for_each_epoch(recipe):
    (run,) = recipe.mlflow.search_runs(output_format="list")
    history = recipe.mlflow.MlflowClient().get_metric_history(run.info.run_id, "rate/2")
    assert [metric.value for metric in history] == [record.rates["2"] for record in recipe.result.history]


def wandb_has_a_rate_for_each_epoch(recipe):
    (log,) = Path("wandb").glob("offline-run-*/*.wandb")
    assert log.read_bytes().count(b"rate/2") >= len(recipe.result.history)


CHECKS = {
    "MAPIE": mapie_gives_the_library_s_own_intervals,
    "skpro": skpro_keeps_the_quantiles_and_finds_no_fault,
    "skops": skops_files_hold_the_model,
    "AutoGluon": autogluon_predicts_quantiles,
    "ScoringBench": scoringbench_takes_the_prediction,
    "baal": baal_labels_what_it_asked_for,
    "Laplace": laplace_predicts_classes,
    "posteriors": posteriors_draws_other_weights,
    "MLflow": mlflow_has_a_rate_for_each_epoch,
    "Weights & Biases": wandb_has_a_rate_for_each_epoch,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the other libraries
@pytest.mark.parametrize("library", CHECKS)
def test_a_recipe_runs(library, tmp_path, monkeypatch) -> None:
    (blocks,) = ([code for _, code in found] for title, found in SECTIONS.items() if title.endswith(f" {library}?"))
    for package in sorted(set().union(*(imported(code) for code in blocks))):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    module = type(sys)("recipe")
    monkeypatch.setitem(sys.modules, "recipe", module)  # classes of a recipe can be pickled
    for code in blocks:
        exec(code, vars(module))
    CHECKS[library](module)


def test_every_section_has_code_and_what_is_quoted_is_the_program_s() -> None:
    assert len(SECTIONS) == 16
    for title, blocks in SECTIONS.items():
        assert blocks, title
        for source, code in blocks:
            program = (DOCS / source).read_text(encoding="utf-8") if source else ""
            assert not source or code in program or textwrap.indent(code, "    ") in program, (title, source)
