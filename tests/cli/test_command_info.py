"""`gumdrop info`."""

import os
import signal

import pytest

from gumdrop.cli import main


@pytest.mark.parametrize("text", ["[]", "{", '{"table": {}, "scores": [{"values": 3}]}', "[" * 100_000])
def test_damaged_results_are_named(place, tmp_path, capsys, text) -> None:
    for name in ("model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((place / "run" / name).read_bytes())
    assert main(["info", str(tmp_path)]) == 0
    (tmp_path / "results.json").write_text(text)
    assert main(["info", str(tmp_path)]) == 2
    assert "results.json is damaged" in " ".join(capsys.readouterr().err.split())


def test_a_termination_is_an_interruption(place, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gumdrop.tables.info.table_info", lambda folder: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    assert main(["info", str(place / "run")]) == 130
    assert signal.getsignal(signal.SIGTERM) is handler
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_info_fits_a_terminal(place, capsys, folder) -> None:
    assert main(["info", str(place / folder)]) == 0
    said = capsys.readouterr().out
    assert {"sold", "size", "colour"} <= set(said.split())
    assert "Held-out figures" in said
    tables = said[said.index("Columns") :]
    assert max(map(len, tables.splitlines())) <= 80
