"""Training on several processes and machines: real processes that torchrun starts, and what they agree on."""

import contextlib
import datetime
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from gumdrop.training.processes import ProcessGroup, process_group, single_process
from gumdrop.training.processes import group as distributed
from gumdrop.training.processes.sharding import _mean_in_float32

from builders import distributed_job as job
from builders.processes import environment
from builders.waiting import HANG, until

JOB = Path(job.__file__)
SAME = [
    *("plain", "watched", "parts", "loader", "sharded", "stream", "loop"),
    *("several", "several, stream", "sharded, loader"),
]


def command(folder: Path, *words: str, flags: list[str]) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *flags, str(JOB), str(folder), *words]


def launch(folder: Path, *words: str, flags: list[str]) -> dict:
    """Run the job under torchrun and give what its first process found."""
    call = command(folder, *words, flags=flags)
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-4000:]
    return torch.load(folder / "found.pt")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes find; the second is a fork of the first, since each one takes seconds to load torch."""
    folder = tmp_path_factory.mktemp("two")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    call = [sys.executable, str(JOB), str(folder), *(name for name in job.CASES if "unbroken" not in name)]
    done = subprocess.run(call, env=environment() | given, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-4000:]
    return torch.load(folder / "found.pt")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    flags = ["--standalone", "--nproc-per-node", "2"]
    return launch(tmp_path_factory.mktemp("unbroken"), "unbroken", "unbroken, sharded", flags=flags)


def assert_same(found, expected, tolerance=1e-5):
    for name, value in expected["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, atol=tolerance, rtol=0)
    for ours, theirs in zip(found.get("history", []), expected.get("history", []), strict=True):
        assert ours == pytest.approx(theirs, abs=10 * tolerance)


# The same as one process


@pytest.mark.parametrize("name", SAME)
def test_two_processes_give_the_parameters_of_one(two, name) -> None:
    assert_same(two[name], job.CASES[name]())


def test_bfloat16_stays_near(two) -> None:
    assert_same(two["bfloat16"], job.CASES["bfloat16"](), tolerance=5e-3)


def test_each_process_draws_masks_of_its_own(two) -> None:
    first, second = two["masks"]["drawn"]
    assert first != second


def test_rates_are_the_same_under_masks_that_are_drawn(two) -> None:
    expected = job.settled()["rates"]
    assert max(expected.values()) > 0.4  # far from where it began
    for name, rate in expected.items():
        assert two["free"]["rates"][name] == pytest.approx(rate, abs=0.01)


# A process that dies


@pytest.mark.slow
def test_a_killed_process_costs_the_epochs_since_the_checkpoint(tmp_path, unbroken) -> None:
    flags = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    found = launch(tmp_path, "killed", "killed, sharded", flags=flags)
    assert sorted(path.name for path in tmp_path.glob("died-*")) == ["died-False", "died-True"]
    assert found["killed, sharded"]["steps"] == 3 * 4  # of the epochs 4 to 6
    assert_same(found["killed"], unbroken["unbroken"], tolerance=1e-6)
    assert_same(found["killed, sharded"], unbroken["unbroken, sharded"], tolerance=1e-6)


@contextlib.contextmanager
def machines():
    """Two network namespaces with a cable between them, where this is allowed."""
    names = [f"gumdrop-{os.getpid()}-{i}" for i in range(2)]
    ends = [f"gd{os.getpid()}{i}"[-15:] for i in range(2)]
    made = []
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
            made.append(name)
        cable = ["ip", "link", "add", ends[0], "netns", names[0], "type", "veth"]
        subprocess.run([*cable, "peer", "name", ends[1], "netns", names[1]], check=True, capture_output=True)
        for i, (name, end) in enumerate(zip(names, ends, strict=True)):
            for words in (["addr", "add", f"10.77.0.{i + 1}/24", "dev", end], ["link", "set", end, "up"],
                          ["link", "set", "lo", "up"]):  # fmt: skip
                subprocess.run(["ip", "-n", name, *words], check=True, capture_output=True)
        yield list(zip(names, ends, strict=True))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', error)!r}")
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.mark.slow
def test_two_machines_train_and_survive_a_killed_process(tmp_path, unbroken) -> None:
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1", "--master-addr", "10.77.0.1"]
    with machines() as pair:
        running = []
        for i, (name, end) in enumerate(pair):
            call = command(tmp_path, "killed", flags=[*flags, "--master-port", "29511", "--node-rank", str(i)])
            running.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, *call],
                    env={**environment(), "GLOO_SOCKET_IFNAME": end},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            said = [process.communicate(timeout=HANG)[0] for process in running]
        finally:
            for process in running:
                process.kill()
        assert [process.returncode for process in running] == [0, 0], said
    assert (tmp_path / "died-False").exists()
    found = torch.load(tmp_path / "found.pt")["killed"]
    assert found["steps"] == 3 * 4
    assert_same(found, unbroken["unbroken"], tolerance=1e-6)


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

    class Bucket:
        def buffer(self):
            return torch.full((2,), 1 / 3, dtype=torch.bfloat16)

    class Work:
        def get_future(self):
            future = torch.futures.Future()
            future.set_result([sent[0]])
            return future

    def all_reduce(tensor, async_op=False):
        sent.append(tensor)
        return Work()

    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: 3)
    monkeypatch.setattr(distributed.dist, "all_reduce", all_reduce)
    result = _mean_in_float32(None, Bucket()).wait()
    assert sent[0].dtype == torch.float32
    assert result.dtype == torch.bfloat16
