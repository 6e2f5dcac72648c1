"""What needs no torch does not load it: versions, helps, and refusals that the command line and a header can tell."""

import re
import subprocess
import sys

import pytest

from gumdrop.cli import main

from builders.waiting import HANG

SLOW = ("torch", "numpy", "pandas", "sklearn", "matplotlib")
COMMANDS = ["fit", "predict", "evaluate", "explain", "info", "compare", "demo", "export", "explain-image", "fit-rates"]
COMMANDS += ["reproduce", "explore"]


RUN = f"""
import sys
sys.modules.update(dict.fromkeys({SLOW}))
from gumdrop.cli import main
for words in eval(sys.argv[1]):
    print(f"{{main(words)}}~", file=sys.stderr)
"""


def run(commands, place=None):
    """Run commands in a process where nothing slow can be imported; what it writes, and what each one answers."""
    call = [sys.executable, "-W", "error", "-c", RUN, repr(commands)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=HANG, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.split("~\n")[:-1]


def test_words_about_the_commands_need_no_torch() -> None:
    words = [["--version"], ["--help"], ["reproduce", "--list"], *([name, "--help"] for name in COMMANDS)]
    said, answers = run(words)
    assert answers == ["0"] * len(words)
    assert all(f"Usage: gumdrop {name}" in said for name in COMMANDS)
    assert re.search(r"reproduce +Run ", said), "each command has a word on what it does"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "houses.csv").write_text("size,price\n1,2\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "model.json").write_text("{}")
    return tmp_path


REFUSALS = [
    (["fit", "nowhere.csv", "--target", "price"], "nowhere.csv is not there"),
    (["fit", "houses.csv", "--target", "prise"], "did you mean price?"),
    (["fit", "houses.csv", "--target", "prise", "--out", "made"], "did you mean price?"),
    (["fit", "houses.csv"], "--target is missing: name the column to predict, one of size, price"),
    (["fit", "houses.csv", "--target", "price", "--drop", "id"], "no column 'id'"),
    (["fit", "houses.csv", "--target", "price", "--out", "made"], "exists already"),
    (["fit", "houses.csv", "--target", "price", "--nonsense"], "--nonsense"),
    (["fit", "houses.csv", "--target", "price", "--seed", "-1"], "`seed` must be at least 0"),
    (["predict", "nowhere", "houses.csv"], "holds no model.json"),
    (["predict", "made", "nowhere.csv"], "nowhere.csv is not there"),
    (["predict", "made", "houses.csv", "--keep", "id", "--out", "houses.csv"], "no column 'id'; its columns are:"),
    (["explain", "made", "nowhere.csv"], "nowhere.csv is not there"),
    (["evaluate", "made", "nowhere.csv"], "nowhere.csv is not there"),
    (["info", "nowhere"], "holds no model.json"),
    (["drift", "nowhere", "houses.csv"], "holds no model.json"),
    (["drift", "made", "nowhere.csv"], "nowhere.csv is not there"),
    (["compare", "nowhere", "made"], "holds no model.json"),
    (["compare", "made", "made"], "holds no results.json"),
    (["export", "nowhere"], "holds no model.json"),
]


def test_a_refusal_needs_no_torch(place) -> None:
    before = sorted(place.rglob("*"))
    _, answers = run([words for words, _ in REFUSALS], place)
    for (words, message), answer in zip(REFUSALS, answers, strict=True):
        assert message in answer, words
        assert answer.endswith("2"), words
        assert "Traceback" not in answer, words
    assert sorted(place.rglob("*")) == before


def test_the_library_loads_torch_when_a_name_of_it_is_used_and_never_the_extra_of_export() -> None:
    code = "import sys, gumdrop, gumdrop.tables; assert 'torch' not in sys.modules; gumdrop.learn_dropout"
    names = (
        "[getattr(m, name) for m in (gumdrop, gumdrop.tables) for name in m.__all__]; gumdrop.objective.NegativeElbo"
    )
    wrong = "hasattr(gumdrop, 'learn_dropuot') or hasattr(gumdrop.tables, 'nothing')"
    extra = "import gumdrop.export; assert {'onnx', 'onnxruntime', 'onnxscript'}.isdisjoint(sys.modules)"
    code += f"; assert 'torch' in sys.modules; {names}; assert not ({wrong}); {extra}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr


def test_predicting_loads_neither_a_compiler_nor_scikit_learn(place) -> None:
    fit = ["--target", "price", "--epochs", "1", "--members", "1", "--hidden", "2", "--draws", "2", "--quiet"]
    rows = "\n".join(f"{i},{i % 7}.5" for i in range(20))
    (place / "many.csv").write_text(f"size,price\n{rows}\n")
    assert main(["fit", str(place / "many.csv"), *fit, "--out", str(place / "run")]) == 0
    (place / "new.csv").write_text("size\n1\n")
    code = "import sys; from gumdrop.cli import main; assert main(['predict', 'run', 'new.csv']) == 0; "
    code += "assert {'sklearn', 'torch._dynamo', 'sympy', 'matplotlib'}.isdisjoint(sys.modules)"
    call = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, timeout=HANG, cwd=place)
    assert done.returncode == 0, done.stderr
