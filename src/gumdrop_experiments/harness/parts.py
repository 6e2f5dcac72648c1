"""Parts of a run: each is computed once and written whole, one after the other or several at a time."""

import copy
import itertools
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gumdrop.training.processes import process_group, single_process, with_long_timeout
from gumdrop_experiments.harness.launch import launch
from gumdrop_experiments.harness.plain import Plain, plain, read_json, write_json
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.harness.variants import part_name

Compute = Callable[[], Any]
Key = TypeVar("Key", bound=str | tuple[Any, ...])


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
        found: Plain = {}
        problems: dict[str, str] = {}
        with single_process():
            for name in list(calls)[self._group.rank :: self._group.world_size]:
                try:
                    found[name] = calls[name]()
                except Exception as error:
                    traceback.print_exc()
                    problems[name] = traceback.format_exception_only(error)[-1].strip()
        for others, failed in self._group.gather((found, problems)):
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
