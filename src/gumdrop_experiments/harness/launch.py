"""Run independent pieces of work each in a process of its own: on this machine, or on a cluster."""

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from gumdrop_experiments.harness.settings import Launcher

TRIES = 2

Work = Callable[[], object]


class _CrashError(Exception):
    """A process that ended without an exception."""


def launch(
    work: Mapping[str, Work],
    *,
    jobs: int,
    launcher: Launcher = "processes",
    folder: Path,
    notify: Callable[[str], object] = print,
) -> dict[str, str]:
    """Do pieces of work, some at a time, each in its own process, so that one that dies takes no other with it.

    A process that dies without an exception is tried once more; one that raises is not, because it would again. Work
    leaves its results itself; what went wrong is returned, by the name of the piece. ``"submitit"`` hands work to Slurm
    where there is ``sbatch``, and else runs it here; settings of Slurm, such as the partition, come from its own
    environment variables (``SBATCH_PARTITION``), and its logs go into the folder.
    """
    from joblib import Parallel, delayed

    threads = max(1, torch.get_num_threads() // jobs)
    attempt = partial(_in_process, threads=threads) if launcher == "processes" else _on_cluster(folder, threads)
    outcomes = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(_tried)(name, call, attempt, notify) for name, call in work.items()
    )
    return {name: problem for name, problem in zip(work, outcomes, strict=True) if problem}


def _tried(
    name: str, call: Work, attempt: Callable[[str, Work], str | None], notify: Callable[[str], object]
) -> str | None:
    for left in reversed(range(TRIES)):
        try:
            problem = attempt(name, call)
        except _CrashError as crash:
            problem = str(crash)
            if left:
                notify(f"{name} {problem}; it is tried again")
                continue
            problem = f"{problem}, {TRIES} times"
        if problem:
            notify(f"{name} failed: {problem}")
        return problem
    raise AssertionError("the loop returns")


def _in_process(name: str, call: Work, *, threads: int) -> str | None:
    """Run a piece in a fresh process of this machine; give the error that it raised."""
    import cloudpickle

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(cloudpickle.dumps(call), threads, theirs), name=name, daemon=True)
    process.start()
    theirs.close()
    try:
        problem: str | None = ours.recv()
    except EOFError:
        problem = "?"
    process.join()
    if problem == "?":
        code = process.exitcode or 0
        raise _CrashError(f"was killed by signal {-code}" if code < 0 else f"ended with status {code}")
    return problem


def _child(pickled: bytes, threads: int, answer: Connection) -> None:
    import pickle

    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    os.environ["TQDM_DISABLE"] = "1"  # bars of several processes would overwrite each other
    answer.send(_guarded(pickle.loads(pickled), threads))


def _end_with_the_parent() -> None:
    """End this process when the one that started it is gone: a run that is killed must not go on unseen."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _guarded(call: Work, threads: int) -> str | None:
    """Run a piece; give the last line of what it raises."""
    torch.set_num_threads(threads)
    try:
        call()
    except Exception as error:
        traceback.print_exc()
        return traceback.format_exception_only(error)[-1].strip()
    return None


def _on_cluster(folder: Path, threads: int) -> Callable[[str, Work], str | None]:
    """Give what runs a piece as a job of a cluster and waits for it."""
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise ValueError("`launcher` submitit is not installed: pip install 'gumdrop[sweeps]'") from error
    executor = submitit.AutoExecutor(folder=folder)
    lock = threading.Lock()

    def run(name: str, call: Work) -> str | None:
        with lock:
            executor.update_parameters(name=name[:40], timeout_min=3 * 24 * 60, cpus_per_task=threads)
            job = executor.submit(_guarded, call, threads)
        try:
            problem: str | None = job.result()
        except submitit.core.utils.UncompletedJobError as error:
            raise _CrashError(f"left no result as job {job.job_id}; see {job.paths.stderr}") from error
        return problem

    return run
