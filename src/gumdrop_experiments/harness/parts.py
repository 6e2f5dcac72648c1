"""Parts of a run: each is computed once and written whole, one after the other or several at a time in processes."""

import copy
import itertools
import multiprocessing
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch

from gumdrop.training.processes import process_group, single_process, with_long_timeout
from gumdrop_experiments.harness.plain import Plain, plain, read_json, write_json
from gumdrop_experiments.harness.settings import Launcher, RunOptions
from gumdrop_experiments.harness.variants import part_name

TRIES = 2
Work = Callable[[], object]
Compute = Callable[[], Any]
Key = TypeVar("Key", bound=str | tuple[Any, ...])


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
    problem: str | None = None
    for left in reversed(range(TRIES)):
        try:
            problem = attempt(name, call)
            break
        except _CrashError as crash:
            problem = f"{crash}, {TRIES} times"
            if left:
                notify(f"{name} {crash}; it is tried again")
    if problem:
        notify(f"{name} failed: {problem}")
    return problem


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


class Parts:
    """The parts of a run, files of `parts` in its folder.

    A run that was stopped loses at most the part that it was in, and not even that where the part keeps a checkpoint.
    """

    def __init__(self, name: str, folder: Path, options: RunOptions, notify: Callable[[str], object]) -> None:
        self._group = with_long_timeout(process_group())
        self._writes = self._group.is_first
        self.name, self.folder, self.options = name, folder, options
        self._notify = notify if self._writes else lambda note: None
        self._names: set[str] = set()
        self._checkpoints: list[Path] = []

    def part(self, name: str, compute: Compute) -> Any:
        """Compute a part of the results, or read it where an earlier run did."""
        self._check_name(name)
        self._note_time()
        return self._group.from_first(lambda: self._part(name, compute))

    def parts(self, calls: Mapping[Key, Compute]) -> dict[Key, Any]:
        """Compute parts that need no other: one after the other, or with ``options.jobs`` several at a time.

        A key of several words, such as a set and a seed, names its part by `part_name`.

        Under torchrun the processes share them out, and all of them get all parts. Where some fail, the others are
        kept.
        """
        names = [key if isinstance(key, str) else part_name(*key) for key in calls]
        done = self._parts(dict(zip(names, calls.values(), strict=True)))
        return {key: done[name] for key, name in zip(calls, names, strict=True)}

    def product(self, compute: Callable[..., Any], *words: Iterable[Any]) -> dict[tuple[Any, ...], Any]:
        """Compute a part for each combination, such as of sets and seeds, which the call is given; see `parts`."""
        return self.parts({key: partial(compute, *key) for key in itertools.product(*words)})

    def _parts(self, computes: Mapping[str, Compute]) -> Plain:
        for name in computes:
            self._check_name(name)
        self._note_time()
        if self._group.world_size == self.options.jobs == 1 and self.options.launcher == "processes":
            return {name: self._part(name, compute) for name, compute in computes.items()}
        waiting = self._group.from_first(lambda: [name for name in computes if not self._file(name).exists()])
        if waiting:
            self._note_code()
        calls = {name: partial(_compute, self, name, computes[name]) for name in waiting}
        if self._group.world_size > 1:
            problems = self._share(calls)
        else:
            jobs, launcher = self.options.jobs, self.options.launcher
            problems = launch(calls, jobs=jobs, launcher=launcher, folder=self.folder / "jobs", notify=self._notify)
        if problems:
            reasons = "\n".join(f"{name}: {problem}" for name, problem in problems.items())
            raise ChildProcessError(
                f"{len(problems)} of {len(computes)} parts failed; the others are kept, and the same command with "
                f"--resume goes on with these:\n{reasons}"
            )
        return self._group.from_first(lambda: {name: read_json(self._file(name)) for name in computes})

    def has(self, name: str) -> bool:
        """Whether an earlier run has computed a part."""
        return self._group.from_first(lambda: self._file(name).exists())

    def checkpoint(self, name: str, *, keep: bool = False) -> Path:
        """Find a place for the state of a training run; it is removed when the part that asked for it is done."""
        path = self.folder / "parts" / f"{name}.checkpoint"
        if not keep:
            self._checkpoints.append(path)
        return path

    def _note_time(self) -> None:
        """Do nothing; a run writes down the time that it has taken."""

    def _note_code(self) -> None:
        """Do nothing; a run writes down the code of a part that is not yet there."""

    def _file(self, name: str) -> Path:
        return self.folder / "parts" / f"{name}.json"

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[\w=.+-]+", name) or name in self._names:
            problem = "used twice" if name in self._names else "no plain file name"
            raise ValueError(f"`name` of a part must be new and of letters, digits and =.+-_; {name!r} is {problem}")
        self._names.add(name)

    def _part(self, name: str, compute: Compute) -> Any:
        path = self._file(name)
        if path.exists():
            self._notify(f"{self.name}: {name} was done before")
            return read_json(path)
        started = time.monotonic()
        self._note_code()
        self._notify(f"{self.name}: {name} ...")
        with single_process():
            part = plain(compute(), f"part {name!r}")
        write_json(path, part)
        for checkpoint in self._checkpoints:
            checkpoint.unlink(missing_ok=True)
        self._checkpoints.clear()
        self._note_time()
        self._notify(f"{self.name}: {name} took {time.monotonic() - started:.0f} s")
        return part

    def _share(self, calls: Mapping[str, Compute]) -> dict[str, str]:
        """Compute this process's share of some parts, and write down on the first what the others found."""
        results: Plain = {}
        problems: dict[str, str] = {}
        with single_process():
            for name in list(calls)[self._group.rank :: self._group.world_size]:
                try:
                    results[name] = calls[name]()
                except Exception as error:
                    traceback.print_exc()
                    problems[name] = traceback.format_exception_only(error)[-1].strip()
        for others, failed in self._group.gather((results, problems)):
            problems |= failed
            for name, part in others.items():
                if self._writes and not self._file(name).exists():
                    write_json(self._file(name), part)
        return problems


def _compute(parts: Parts, name: str, compute: Compute) -> Any:
    """Compute a part in whatever process this is; only the main one keeps the time that a run took."""
    worker = copy.copy(parts)
    worker._writes = False
    return worker._part(name, compute)
