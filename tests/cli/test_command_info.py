"""`gumdrop info`."""

import os
import signal

import pytest

from gumdrop.cli import main


@pytest.mark.parametrize("text", ["[]", "{", '{"table": {}, "scores": [{"values": 3}]}', "[" * 100_000])
def test_damaged_results_are_named(place, tmp_path, shell, text) -> None:
    for name in ("model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((place / "run" / name).read_bytes())
    shell.said("info", tmp_path)
    (tmp_path / "results.json").write_text(text)
    assert "results.json is damaged" in shell.refused("info", tmp_path)


def test_a_termination_is_an_interruption(place, monkeypatch, shell) -> None:
    monkeypatch.setattr("gumdrop.tables.info.table_info", lambda folder: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    assert "stopped" in shell.said("info", place / "run", status=130)
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_info_fits_a_terminal(place, capsys, folder) -> None:
    assert main(["info", str(place / folder)]) == 0
    said = capsys.readouterr().out
    assert {"sold", "size", "colour"} <= set(said.split())
    assert "Held-out figures" in said
    tables = said[said.index("Columns") :]
    assert max(map(len, tables.splitlines())) <= 80
