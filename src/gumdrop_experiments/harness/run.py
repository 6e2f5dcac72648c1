"""One run of an experiment: its options, the parts that it can be stopped between, and what it leaves."""

import copy
import json
import re
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop.machine.version import VERSION
from gumdrop.training.processes import process_group, single_process, with_long_timeout
from gumdrop_experiments.harness.launch import launch
from gumdrop_experiments.pages.page import Page, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from gumdrop_experiments.harness.options import RunOptions

__all__ = ["Run"]


RESULTS_FORMAT = 1


class Run:
    """A run of an experiment, and the folder that it fills.

    A run is a sequence of parts. Each is computed once and written whole, so a run that was stopped loses at most the
    part that it was in, and not even that where the part keeps a checkpoint.

    Args:
        name: Name of the experiment.
        options: The flags that all experiments share.
        settings: The flags that are its own, by name; what JSON can hold.
        notify: Called with a sentence for each thing that the reader should know.

    Raises:
        FileExistsError: If the folder is not empty and ``options.resume`` is false, or holds something else.
        ValueError: If the run to go on with had other settings.

    Example:
        >>> import tempfile
        >>> options = RunOptions(out=Path(tempfile.mkdtemp()))
        >>> with Run("sums", options, notify=lambda note: None) as run:
        ...     total = run.part("first", lambda: sum(range(5)))
        ...     page = run.finish({"total": total}, Page("Sums", f"The sum is {total}.", body=[]))
        >>> page.name
        'report.html'
    """

    def __init__(
        self,
        name: str,
        options: RunOptions,
        settings: dict[str, Any] | None = None,
        *,
        notify: Callable[[str], object] = print,
    ) -> None:
        self._ranks = with_long_timeout(process_group())
        self._writes = self._ranks.is_first
        self.name, self.options = name, options
        self._notify = notify if self._writes else _silent
        self.folder = options.out or Path("runs") / name
        shared = {"seed": options.seed, "quick": options.quick, "device": options.device}
        self._settings = _plain({**shared, **(settings or {})}, "the settings")
        self._identity = {"experiment": name, "gumdrop": VERSION, **self._settings}
        self._earlier = self._open() if self._writes else 0.0
        self._started = time.monotonic()
        self._parts: set[str] = set()
        self._checkpoints: list[Path] = []
        self._figures: list[str] = []
        self._save_start()

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the time that was spent; an interruption gets the words that say how to go on."""
        self._save_start()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"stopped; the same command with --resume goes on in {self.folder}") from error

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """Compute a part of the results, or read it where an earlier run did.

        Args:
            name: Its name, also that of its file.
            compute: Computes it; what it returns must be what JSON can hold.

        Returns:
            The part, as JSON gives it back: tuples are lists, keys are texts.

        Raises:
            ValueError: If the name is no file name or was used before, the part holds what JSON cannot, or its file
                is damaged.
        """
        self._check_name(name)
        return self._ranks.from_first(lambda: self._part(name, compute))

    def parts(self, computes: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Compute parts that do not need each other: one after the other, or with ``options.jobs`` several at a time.

        Under torchrun the processes share them out, and all of them get all parts.

        Args:
            computes: What computes each part, by its name, as for `part`.

        Returns:
            The parts, by name.

        Raises:
            ChildProcessError: If parts failed; the others are computed and kept.
        """
        for name in computes:
            self._check_name(name)
        if self._ranks.world_size == self.options.jobs == 1 and self.options.launcher == "processes":
            return {name: self._part(name, compute) for name, compute in computes.items()}
        waiting = self._ranks.from_first(lambda: [name for name in computes if not self._part_file(name).exists()])
        calls = {name: partial(_compute, self, name, computes[name]) for name in waiting}
        found: dict[str, Any] = {}
        if self._ranks.world_size > 1:
            problems = self._share(calls, found)
        else:
            options = {"jobs": self.options.jobs, "launcher": self.options.launcher}
            problems = launch(calls, folder=self.folder / "jobs", notify=self._notify, **options)  # type: ignore[arg-type]
        if problems:
            reasons = "\n".join(f"{name}: {problem}" for name, problem in problems.items())
            raise ChildProcessError(
                f"{len(problems)} of {len(computes)} parts failed; the others are kept, and the same command with "
                f"--resume goes on with these:\n{reasons}"
            )
        return self._ranks.from_first(lambda: {name: _read_json(self._part_file(name)) for name in computes})

    def _share(self, calls: Mapping[str, Callable[[], Any]], found: dict[str, Any]) -> dict[str, str]:
        """Compute this process's share of some parts, and write down on the first what the others found."""
        problems: dict[str, str] = {}
        with single_process():
            for name in list(calls)[self._ranks.rank :: self._ranks.world_size]:
                try:
                    found[name] = calls[name]()
                except Exception as error:
                    traceback.print_exc()
                    problems[name] = traceback.format_exception_only(error)[-1].strip()
        for others, failed in self._ranks.gather((found, problems)):
            problems |= failed
            for name, part in others.items():
                if self._writes and not self._part_file(name).exists():
                    _write_json(self._part_file(name), part)
        return problems

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[\w=.+-]+", name) or name in self._parts:
            problem = "used twice" if name in self._parts else "no plain file name"
            raise ValueError(f"`name` of a part must be new and of letters, digits and =.+-_; {name!r} is {problem}")
        self._parts.add(name)

    def _part(self, name: str, compute: Callable[[], Any]) -> Any:
        path = self._part_file(name)
        if path.exists():
            self._notify(f"{self.name}: {name} was done before")
            return _read_json(path)
        started = time.monotonic()
        self._notify(f"{self.name}: {name} ...")
        with single_process():
            part = _plain(compute(), f"part {name!r}")
        _write_json(path, part)
        for checkpoint in self._checkpoints:
            checkpoint.unlink(missing_ok=True)
        self._checkpoints.clear()
        self._save_start()
        self._notify(f"{self.name}: {name} took {time.monotonic() - started:.0f} s")
        return part

    def checkpoint(self, name: str) -> Path:
        """Find a place for the state of a training run; it is removed when the part that asked for it is done.

        Args:
            name: Name of the training run, new for each.

        Returns:
            Path for `gumdrop.training.fit(checkpoint=...)`.
        """
        path = self.folder / "parts" / f"{name}.checkpoint"
        self._checkpoints.append(path)
        return path

    def figure(self, name: str, figure: "Figure") -> Path:
        """Write a figure as PNG.

        Args:
            name: Its name, without ending.
            figure: The figure.

        Returns:
            The file.
        """
        path = self.folder / f"{name}.png"
        if not self._writes:
            return path
        with replacing(path, "wb") as file:
            figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
        self._figures.append(path.name)
        return path

    def finish(self, results: dict[str, Any], page: Page) -> Path:
        """Write `results.json` and the page.

        The parts stay: they are small, and with ``resume`` the figures and the page can be drawn again from them.

        Args:
            results: The numbers of every figure and table.
            page: What the page says.

        Returns:
            The page.
        """
        contents = {
            "format": RESULTS_FORMAT,
            "experiment": self.name,
            "gumdrop": VERSION,
            "command": self._command(),
            **self._settings,
            "environment": environment(self.options.device),
            "seconds": round(self._seconds(), 1),
            "figures": self._figures,
            "results": _plain(results, "`results`"),
        }
        if not self._writes:
            return self.folder / "report.html"
        _write_json(self.folder / "results.json", contents)
        text = render(page, contents, self.folder)
        with replacing(self.folder / "report.html") as file:
            file.write(text)
        self._notify(f"Look at  {self.folder / 'report.html'}")
        return self.folder / "report.html"

    def _open(self) -> float:
        """Check that the folder is ours to fill; return the seconds that were spent in it."""
        start = self.folder / "run.json"
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return 0.0
        if not start.is_file():
            raise FileExistsError(f"{self.folder} holds something that is no run; name another folder with --out")
        recorded = _read_json(start)
        if not self.options.resume:
            raise FileExistsError(
                f"{self.folder} holds a run of {recorded['settings'].get('experiment')}; add --resume to go on with "
                "it, or name another folder with --out"
            )
        old, new = recorded["settings"], self._identity
        changed = [f"{key} was {old.get(key)}, is {new.get(key)}" for key in old | new if old.get(key) != new.get(key)]
        if changed:
            raise ValueError(
                f"{self.folder} holds a run with other settings ({'; '.join(changed)}); repeat these, or name another "
                "folder with --out"
            )
        return float(recorded["seconds"])

    def _part_file(self, name: str) -> Path:
        return self.folder / "parts" / f"{name}.json"

    def _seconds(self) -> float:
        return self._earlier + time.monotonic() - self._started

    def _save_start(self) -> None:
        if self._writes:
            _write_json(self.folder / "run.json", {"settings": self._identity, "seconds": self._seconds()})

    def _command(self) -> str:
        words = [f"gumdrop reproduce {self.name}"]
        for key, value in self._settings.items():
            flag = f"--{key.replace('_', '-')}"
            if isinstance(value, bool):
                words += [flag] * value
            elif value is not None:
                words += [f"{flag} {each}" for each in (value if isinstance(value, list) else [value])]
        return " ".join(words)


def _compute(run: Run, name: str, compute: Callable[[], Any]) -> Any:
    """Compute a part in whatever process this is; only the main one keeps the time that a run took."""
    worker = copy.copy(run)
    worker._writes = False
    return worker._part(name, compute)


def _silent(note: str) -> None:
    """Say nothing."""


def _plain(value: Any, what: str) -> Any:
    """What JSON makes of a value, so that a part is the same whether computed or read."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold finite numbers, texts, lists and dicts alone ({error})") from error


def _write_json(path: Path, contents: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(contents, indent=1) + "\n")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); delete it to compute it again") from error
