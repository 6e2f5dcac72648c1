"""What docs/deployment.md tells to type works, and its figures are those of the results file."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.export import serving

from builders.tables import write_table

pytest.importorskip("onnxruntime", reason="needs the extra `export`")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "deployment.md"


@pytest.mark.slow
def test_the_commands_and_the_code_of_the_page_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "full.csv")
    pd.read_csv("full.csv").drop(columns="grade").to_csv("houses.csv", index=False)
    shutil.copy(serving.__file__, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "serving", raising=False)
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for command, code in re.findall(r"^    (gumdrop [^\n]*)$|^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if command:
            words = shlex.split(command, comments=True)[1:]
            smaller = ["--members", "1", "--epochs", "3"] if words[0] == "fit" else []
            assert main([*words, *smaller]) == 0, command
        else:
            exec(code, names)
    made = {path.name for path in tmp_path.iterdir()}
    assert {"houses.onnx", "reproducible.onnx", "houses.pt2", "network.pt2"} <= made


def rows_of_the_table():
    results = json.loads((DOCS / "results" / "export.json").read_text(encoding="utf-8"))["results"]
    for name, case in results.items():
        same = max(case["moments"]["same_noise_worst_row"].values())
        parts = case["moments"]["free_noise_mean_over_rows"].values()
        free = max(abs(part["difference"]) / part["standard_error"] for part in parts)
        faster = [f"{1 / each['onnxruntime']['ratio']:.2g}" for each in case["times"].values()]
        yield f"| {name} | {same:.0e} | {free:.1f} | {' | '.join(faster)} |"


def test_the_figures_are_those_of_the_results_file() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row in rows_of_the_table():
        assert row in text, row
