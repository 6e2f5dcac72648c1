"""Training on several processes and machines: real processes that torchrun starts, and what they agree on."""

import datetime
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from gumdrop.training.processes import ProcessGroup, process_group, single_process
from gumdrop.training.processes import group as distributed
from gumdrop.training.processes.sharding import _mean_in_float32

from builders import distributed_job as job
from builders.processes import environment, run_two
from builders.waiting import HANG, until

JOB = Path(job.__file__)
SAME = ("plain", "watched", "parts", "loader", "sharded", "stream", "loop", "several", "sharded, loader")


def launch(folder: Path, *words: str, machines: tuple[tuple[str, ...], ...] = ((),)) -> dict:
    """Run the job under torchrun, on two processes, and give what its first process found."""
    folder.mkdir()
    alone = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    calls = [
        [sys.executable, "-m", "torch.distributed.run", *(flags or alone), str(JOB), str(folder), *words]
        for flags in machines
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    running = [subprocess.Popen(call, env=environment(), **pipes) for call in calls]
    try:
        said = [process.communicate(timeout=HANG)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(process.returncode for process in running), [each[-4000:] for each in said]
    return torch.load(folder / "found.pt")


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> dict:
    """What two processes find; the second is a fork of the first, since each one takes seconds to load torch."""
    folder = tmp_path_factory.mktemp("two")
    run_two(JOB, folder, *job.CASES)
    return torch.load(folder / "found.pt")


def assert_same(found, expected, tolerance=1e-5):
    for name, value in expected["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, atol=tolerance, rtol=0)
    for ours, theirs in zip(found.get("history", []), expected.get("history", []), strict=True):
        assert ours == pytest.approx(theirs, abs=10 * tolerance)


@pytest.mark.slow
def test_two_processes_give_the_parameters_of_one(two) -> None:
    for name in SAME:
        assert_same(two[name], job.CASES[name]())
    assert_same(two["bfloat16"], job.CASES["bfloat16"](), tolerance=5e-3)
    first, second = two["masks"]["drawn"]
    assert first != second


# A process that dies


@pytest.mark.slow
def test_a_killed_process_costs_the_epochs_since_the_checkpoint(tmp_path, two) -> None:
    found = launch(tmp_path / "killed", "killed", "killed, sharded")
    assert sorted(path.name for path in (tmp_path / "killed").glob("died-*")) == ["died-False", "died-True"]
    assert found["killed, sharded"]["steps"] == 3 * 4  # of the epochs 4 to 6
    assert_same(found["killed"], two["unbroken"], tolerance=1e-6)
    assert_same(found["killed, sharded"], two["unbroken, sharded"], tolerance=1e-6)


@pytest.mark.slow
def test_two_machines_train_and_survive_a_killed_process(tmp_path, two) -> None:
    """Each has a torchrun of its own, so that both processes are the first of their machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    flags = ("--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1", "--master-addr", "127.0.0.1")
    machines = tuple((*flags, "--master-port", port, "--node-rank", rank) for rank in "01")
    found = launch(tmp_path / "killed", "killed", machines=machines)
    assert (tmp_path / "killed" / "died-False").exists()
    assert found["killed"]["steps"] == 3 * 4
    assert_same(found["killed"], two["unbroken"], tolerance=1e-6)


# The end


def test_processes_leave_together() -> None:
    store, left = dist.HashStore(), []

    def leave() -> None:
        distributed._await_others(store, 3)
        left.append(True)

    threads = [threading.Thread(target=leave) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: store.add("gumdrop/done", 0) == 2, "two are done")
    assert left == []
    distributed._await_others(store, 3)
    assert store.check(["gumdrop/all-done"]), "and nobody waits for the longest time"
    for thread in threads:
        thread.join(HANG)
    assert len(left) == 2


def test_a_process_with_an_error_leaves_at_once_and_one_alone_soon(monkeypatch) -> None:
    monkeypatch.setattr(distributed, "LONGEST_FAREWELL", datetime.timedelta(seconds=0.1))
    distributed._await_others(dist.HashStore(), 2)  # the other one never comes
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    distributed._await_others(None, 2)


# Without torchrun


def test_a_process_that_torchrun_did_not_start_is_alone(monkeypatch) -> None:
    assert process_group() == ProcessGroup(0, 1)
    monkeypatch.setenv("WORLD_SIZE", "2")  # of some other tool, without a number of this process
    monkeypatch.delenv("RANK", raising=False)
    assert process_group() == ProcessGroup(0, 1)


def test_alone_holds_within_its_context(monkeypatch) -> None:
    monkeypatch.setattr(distributed.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: 3)
    assert process_group() == ProcessGroup(1, 3)
    with single_process():
        assert process_group() == ProcessGroup(0, 1)
    assert process_group() == ProcessGroup(1, 3)


def test_parts_of_a_batch_are_shared_out_without_a_gap() -> None:
    rows = torch.arange(10)
    seen = [part for rank in range(4) for part in ProcessGroup(rank, 4)._mine(rows, 3)]
    assert torch.equal(torch.cat([part[:counted] for part, counted in seen]), rows)
    assert len(seen) == 12
    assert all(len(part) > 0 for part, _ in seen)


def test_gradients_of_half_precision_are_summed_in_float32(monkeypatch) -> None:
    sent = []

    def all_reduce(tensor, async_op):
        sent.append(tensor)
        future = torch.futures.Future()
        future.set_result([tensor])
        return SimpleNamespace(get_future=lambda: future)

    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: 3)
    monkeypatch.setattr(distributed.dist, "all_reduce", all_reduce)
    bucket = SimpleNamespace(buffer=lambda: torch.full((2,), 1 / 3, dtype=torch.bfloat16))
    assert _mean_in_float32(None, bucket).wait().dtype == torch.bfloat16
    assert sent[0].dtype == torch.float32
