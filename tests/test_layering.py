"""Imports point downwards: a module imports modules of a strictly lower rank only."""

import ast
from pathlib import Path

import pytest

import gumdrop

ROOT = Path(gumdrop.__file__).parent

RANKS = {
    "atomic": 0,
    "environment": 0,
    "numerals": 0,
    "functional": 0,
    "bulk": 0.5,
    "kl": 0.6,
    "tracing": 0,
    "threads": 0,
    "layers.passes": 1.05,
    "layers.site": 1.1,
    "layers.noise": 1.1,
    "layers.block": 1.15,
    "layers.watch": 1.2,
    "layers.recurrent": 1.2,
    "layers.embedding": 1.2,
    "layers.attention": 1.2,
    "layers.attach": 1.3,
    "layers": 1.4,
    "candidates": 1.5,
    "plain_dropout": 1.5,
    "conversion": 2,
    "divergence": 1.5,
    "objective": 2,
    "prediction.moments": 2.1,
    "prediction.switches": 2.05,
    "prediction.twins": 2.05,
    "prediction.masks": 2.1,
    "prediction.chain": 2.1,
    "prediction.single_drops": 2.05,
    "prediction.propagation": 2.1,
    "prediction.batched": 2.2,
    "prediction.folding": 2.2,
    "prediction.inputs": 2.1,
    "prediction.draws": 2.3,
    "prediction.regression": 2.4,
    "prediction.classification": 2.4,
    "prediction.counts": 2.4,
    "prediction": 2.5,
    "metrics": 3,
    "training.rows": 3.01,
    "training.distributed": 3.05,
    "training.data": 3.02,
    "training.state": 3.1,
    "training.loop": 3.2,
    "training.stacks": 3.3,
    "training.stacked": 3.4,
    "training.sharing": 3.45,
    "training": 3.5,
    "networks": 3,
    "ensembles.noise": 3.6,
    "ensembles.models": 3.7,
    "ensembles.noise_fit": 3.75,
    "ensembles.fitting": 3.8,
    "ensembles.streaming": 3.85,
    "ensembles": 3.9,
    "baselines": 3,
    "calibration": 3,
    "acquisition": 3,
    "datasets.download": 2.9,
    "datasets": 3,
    "datasets.numbers": 3,
    "datasets.dates": 3,
    "datasets.oddities": 3,
    "datasets.tabular": 3.1,
    "datasets.columns": 3.2,
    "datasets.schema": 3.3,
    "datasets.inference": 3.4,
    "estimators.rows": 4.1,
    "estimators.streaming": 4.15,
    "estimators.ensemble": 4.2,
    "estimators.regressor": 4.3,
    "estimators.classifier": 4.3,
    "estimators": 4.4,
    "datasets.streaming": 3.4,
    "datasets.segmentation": 3.1,
    "tiles": 3,
    "attribution.masks": 4.1,
    "attribution.targets": 4.1,
    "attribution.infills": 4.2,
    "attribution.explanation": 4.2,
    "attribution.scores": 4.2,
    "attribution.search": 4.3,
    "attribution.fido": 4.4,
    "attribution": 4.5,
    "control.cart_pole": 4,
    "control.drawing": 4,
    "control.swing_up": 4.1,
    "control.tasks": 4.2,
    "control.policy_search": 4.3,
    "control.search": 4.4,
    "control": 4.5,
    "plots": 4,
    "table_cells": 3.95,
    "tables": 4,
    "shapley": 4,
    "terminal": 4,
    "table_config": 4,
    "table_folder": 4.1,
    "table_predict": 4.1,
    "table_writing": 4,
    "table_results": 4.1,
    "table_stop": 4,
    "table_stream": 4.5,
    "table_explain": 5,
    "table_info": 5,
    "serving": 0,
    "export.errors": 4.1,
    "export.draws": 4.2,
    "export.graphs": 4.3,
    "export.table_encoding": 4.3,
    "export.table_graph": 4.4,
    "export.formats": 4.4,
    "export.checking": 4.5,
    "export": 4.6,
    "pages": 4,
    "experiments.axes": 5,
    "experiments.arms": 5,
    "experiments.page": 5,
    "experiments.launch": 5,
    "experiments.run": 5.1,
    "experiments.uci_work": 5.1,
    "experiments.uci_peer": 5.15,
    "experiments.uci_methods": 5.16,
    "experiments.uci_figures": 5.1,
    "experiments.uci": 5.2,
    "experiments.tuning": 5.2,
    "experiments.tables_work": 5.1,
    "experiments.tables_methods": 5.15,
    "experiments.tables_figures": 5.1,
    "experiments.tables": 5.2,
    "experiments.decisions_work": 5.1,
    "experiments.decisions": 5.2,
    "experiments.classifiers": 5.1,
    "experiments.gradient_estimators": 5.1,
    "experiments.gradients_uci": 5.1,
    "experiments.attribution_peers": 5.1,
    "experiments.attribution_figures": 5.1,
    "experiments.gradients_figures": 5.1,
    "experiments.mnist_figures": 5.1,
    "experiments.regularisation_figures": 5.1,
    "experiments.rotation_figures": 5.15,
    "experiments.co2_figures": 5.15,
    "experiments.cartpole_figures": 5.1,
    "experiments.attribution": 5.2,
    "experiments.gradients": 5.2,
    "experiments.cartpole": 5.2,
    "experiments.sentiment": 5.2,
    "experiments.transformer_networks": 5.1,
    "experiments.transformers": 5.2,
    "experiments.fc_densenet": 5.1,
    "experiments.unet": 5.1,
    "experiments.camvid_scores": 5.1,
    "experiments.camvid_figures": 5.1,
    "experiments.camvid": 5.2,
    "experiments.g2p_figures": 5.1,
    "experiments.g2p": 5.2,
    "experiments.g2p_networks": 5.1,
    "experiments.g2p_decoding": 5.15,
    "experiments": 5.2,
    "report.rows": 4.5,
    "report.figures": 4.6,
    "report.scores": 4.6,
    "report.page": 4.7,
    "report": 5,
    "table_fit": 5,
    "explore.messages": 5.1,
    "explore.session": 5.2,
    "explore.runs": 5.2,
    "explore.site": 5.3,
    "explore.server": 5.4,
    "explore.recording": 5.4,
    "explore": 5.5,
    "explain": 5,
    "table_commands": 5.9,
    "cli": 6,
}
"""Rank of each module, or of all modules of a folder; fractions order those of one folder that build on each other."""

ANYONE = {"version"}
"""What every module may import, and what itself imports nothing."""

PUBLIC = {"functional", "tracing", "layers", "conversion", "divergence", "objective", "prediction"}
"""What ``import gumdrop`` may load."""


def rank(module):
    """Look up the rank of a module by its name within the package, or by that of a folder around it."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in RANKS:
            return RANKS[name]
    raise LookupError(f"module {module!r} has no rank: give it one in {Path(__file__).name}")


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(tree, exists=lambda module: True):
    """Yield (line, module) for each import from the package, wherever in the code it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "gumdrop":
                    yield node.lineno, alias.name.removeprefix("gumdrop").removeprefix(".")
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SyntaxError(f"line {node.lineno}: relative import; write it out from `gumdrop`")
            if (node.module or "").split(".")[0] == "gumdrop":
                source = node.module.removeprefix("gumdrop").removeprefix(".")
                for alias in node.names:  # `from gumdrop import plots` imports a module, not a name
                    inner = f"{source}.{alias.name}".removeprefix(".")
                    yield node.lineno, inner if exists(inner) else source


def exists(module):
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def problems(module, tree, exists=exists):
    """List what is wrong with the imports of a module."""
    found = []
    for line, target in imports_of(tree, exists):
        if target in ANYONE:
            continue
        if module in ANYONE:
            found.append(f"{module}:{line} imports gumdrop.{target}, but anyone imports it")
        elif not target:
            found.append(f"{module}:{line} imports the top level; name the module that has the thing")
        elif not rank(target) < rank(module):
            found.append(f"{module}:{line} (rank {rank(module)}) imports gumdrop.{target} (rank {rank(target)})")
    return found


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_to_a_lower_rank(module):
    if module not in ANYONE:
        rank(module)
    assert problems(module, ast.parse(MODULES[module].read_text(encoding="utf-8"))) == []


def test_the_top_level_imports_the_core_and_is_nothing_but_names():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    assert {target for _, target in imports_of(tree, exists)} <= PUBLIC | ANYONE
    assert all(isinstance(node, (ast.Expr, ast.ImportFrom, ast.Assign)) for node in tree.body)
    assert set(gumdrop.__all__) <= set(vars(gumdrop))


def test_the_core_is_all_that_the_core_imports():
    assert all(rank(module) < 3 for module in PUBLIC)


# The test itself


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("functional", "from gumdrop.layers import ConcreteDropout"),
        ("conversion", "import gumdrop.objective"),
        ("objective", "def late():\n    from gumdrop.prediction import sample"),
        ("metrics", "from gumdrop import plots"),
        ("layers.site", "from gumdrop.layers.noise import HomoscedasticNoise"),
        ("layers.recurrent", "from gumdrop.layers import attention"),
        ("layers.attention", "from gumdrop.layers import SITE"),
        ("datasets.dates", "from gumdrop.datasets.tabular import read_table"),
        ("training", "from gumdrop import learn_dropout"),
        ("training", "import gumdrop"),
        ("version", "from gumdrop.functional import soft_keep"),
    ],
)
def test_a_wrong_import_is_found(module, code):
    assert len(problems(module, ast.parse(code))) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("cli", "from gumdrop.report import write_report\nfrom gumdrop import plots, version"),
        ("layers.attach", "from gumdrop.layers.site import ConcreteDropout"),
        ("functional", "import torch\nfrom gumdrop.version import VERSION"),
        ("experiments.uci", "from gumdrop.datasets.tabular import read_table"),
        ("plots", "import gumdropper\nfrom gumdropper.plots import x"),
    ],
)
def test_a_right_import_is_not(module, code):
    assert problems(module, ast.parse(code)) == []


def test_a_relative_import_is_an_error():
    for code in ("from . import functional", "from .functional import soft_keep", "from ..layers import SITE"):
        with pytest.raises(SyntaxError, match="relative import"):
            problems("conversion", ast.parse(code))


def test_a_module_without_a_rank_is_an_error():
    for call in (lambda: rank("utils"), lambda: problems("cli", ast.parse("from gumdrop.utils import x"))):
        with pytest.raises(LookupError, match="module 'utils' has no rank"):
            call()
