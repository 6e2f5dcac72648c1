"""A full disk: each command says so, fails with status 1, leaves nothing half-written and keeps what was there."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.machine.files import disk_is_full, replacing
from gumdrop.tables.fitting import fit as table_fit
from gumdrop.tables.results import Stopped
from gumdrop_experiments.data.download import RemoteFile, fetch

from builders.tables import ONE

KB = 1024
FLAGS = ["--target", "y", *ONE]


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A table and its model, where there is room."""
    place = tmp_path_factory.mktemp("ready")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1500, 3)), columns=["a", "b", "c"])
    frame.assign(y=frame["a"] + rng.normal(size=1500)).to_csv(place / "rows.csv", index=False)
    frame.to_parquet(place / "rows.parquet", row_group_size=300)
    assert main(["fit", str(place / "rows.csv"), *FLAGS, "--out", str(place / "fit")]) == 0
    return place


@pytest.fixture
def disk(tmp_path):
    """A folder on a disk of a given size; of 64 KB unless told."""
    mounted = []

    def make(size: int = 64 * KB) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs root, to make a small disk")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["predict", "{fit}", "{rows}.csv"], "out.parquet"),
        (["predict", "{fit}", "{rows}.parquet", "--stream"], "out.csv.gz"),
        (["predict", "{fit}", "{rows}.parquet", "--stream"], "out.parquet"),
        (["explain", "{fit}", "--orders", "2"], "out.html"),
        (["export", "{fit}", "--to", "pt2", "--num-samples", "5"], "out.pt2"),
    ],
)
def test_one_file(ready, disk, shell, words, name) -> None:
    place = disk(8 * KB)
    (place / name).write_text("old")
    words = [word.format(fit=ready / "fit", rows=ready / "rows") for word in words]
    said = shell.said(*words, "--out", place / name, "--overwrite", status=1)
    assert f"error: the disk is full, so {place / name} is not written, and what was there before still is" in said
    assert (place / name).read_text() == "old"
    assert [each.name for each in place.iterdir()] == [name]


def test_a_fit_that_finds_no_room_goes_on_when_there_is(ready, disk, shell) -> None:
    sizes = {path.name: path.stat().st_size for path in (ready / "fit").iterdir()}
    whole = sum(sizes.values())
    place = disk(2 * whole)
    filler = place / "filler"
    words = ["fit", str(ready / "rows.csv"), *FLAGS, "--out", str(place / "fit")]
    for room in (0, 24 * KB, whole // 2):  # where it gets stuck is another place each time
        filler.unlink(missing_ok=True)
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_bsize
        filler.write_bytes(bytes(max(0, free - room)))
        assert f"disk is full: {place / 'fit'} is as it was, and {place / 'fit.partial'} keeps" in shell.said(
            *words, status=1
        )
        assert not (place / "fit").exists()
        assert not list(place.rglob("*.*.partial"))
    filler.unlink()
    assert main(words) == 0
    assert sorted(path.name for path in (place / "fit").iterdir()) == sorted(sizes)
    assert not (place / "fit.partial").exists()
    ours, theirs = (json.loads((each / "fit" / "results.json").read_text()) for each in (place, ready))
    assert ours["scores"] == theirs["scores"]


def test_a_fit_keeps_the_folder_that_it_was_to_replace(ready, disk, shell) -> None:
    place = disk(1024 * KB)
    shutil.copytree(ready / "fit", place / "fit")
    before = {path.name: path.read_bytes() for path in (place / "fit").iterdir()}
    (place / "filler").write_bytes(bytes(1024 * KB - sum(map(len, before.values())) - 100 * KB))
    answer = shell.told("fit", ready / "rows.csv", *FLAGS, "--out", place / "fit", "--overwrite", status=1)
    assert (answer["status"], answer["error"][:16]) == (1, "the disk is full")
    assert {path.name: path.read_bytes() for path in (place / "fit").iterdir()} == before


def test_an_experiment_and_the_page(disk, shell, tmp_path) -> None:
    for words in (["reproduce", "line", "--quick"], ["explore"]):
        place = disk(16 * KB)
        assert "error: the disk is full" in shell.said(*words, "--out", place / "out", status=1)
        assert not list(place.rglob("*.*.partial"))
        for path in place.rglob("*.json"):
            json.loads(path.read_text())
    assert not (place / "out").exists()  # of the page
    with pytest.raises(OSError, match="no room"), replacing(tmp_path / "a" / "b" / "c"):
        raise OSError("no room")
    assert not (tmp_path / "a").exists()


def test_a_stopped_fit_moves_its_checkpoints_without_room_for_copies(ready, monkeypatch, tmp_path) -> None:
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(table_fit, "train_twins", lambda *_: ({}, Stopped(2, 2)))
    monkeypatch.setattr(Path, "write_bytes", stop)
    monkeypatch.setattr("gumdrop.tables.fitting.fit.save_model", lambda model, place: None)
    settings = table_fit.FitSettings(hidden=(8,), num_members=1, epochs=2, num_samples=5)
    table_fit.fit_table(ready / "rows.csv", "y", tmp_path / "fit", settings=settings)
    assert [path.name for path in (tmp_path / "fit.partial").iterdir()] == ["learned.checkpoint"]
    assert not (tmp_path / "fit.partial.kept").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_whoever_finds_it_full_it_is_said(tmp_path, number) -> None:
    (tmp_path / "a").write_text("old")

    def write():
        try:
            raise OSError(number, "no room")
        except OSError:
            raise RuntimeError("unexpected pos") from None  # as torch.save says it

    with pytest.raises(OSError, match=r"the disk is full, so .*a is not written"), replacing(tmp_path / "a"):
        write()
    assert (tmp_path / "a").read_text() == "old"
    assert not disk_is_full(None)
    assert not disk_is_full(OSError(errno.EACCES, "no"))


def test_a_download_tries_no_other_address(tmp_path, monkeypatch) -> None:
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    (tmp_path / "a").write_text("a")
    told = []
    urls = ((tmp_path / "a").as_uri(), (tmp_path / "b").as_uri())
    with pytest.raises(OSError, match="the disk is full"):
        fetch([RemoteFile("c", urls, None)], tmp_path / "data", notify=told.append)
    assert len(told) == 1
    assert not (tmp_path / "data").exists()
