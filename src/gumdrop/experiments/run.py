"""One run of an experiment: its options, the parts that it can be stopped between, and what it leaves."""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gumdrop.atomic import replacing
from gumdrop.environment import environment
from gumdrop.experiments.page import Page, render
from gumdrop.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Run", "RunOptions", "data_folder"]

RESULTS_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags that all experiments share.

    Args:
        data: Folder that holds a folder for each data set, as DIR/uci and DIR/mnist.
        out: Folder for results, figures and the page; by default `runs/NAME`.
        seed: Seed of everything random.
        quick: Run the same code on a smaller problem, in minutes.
        device: Where to train, as torch spells it: cpu, cuda, cuda:1, mps.
        resume: Go on with a run that was stopped.
    """

    data: Path | None = None
    out: Path | None = None
    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    resume: bool = False

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}")


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
        self.name, self.options, self._notify = name, options, notify
        self.folder = options.out or Path("runs") / name
        shared = {"seed": options.seed, "quick": options.quick, "device": options.device}
        self._settings = _plain({**shared, **(settings or {})}, "the settings")
        self._identity = {"experiment": name, "gumdrop": VERSION, **self._settings}
        self._earlier = self._open()
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
        if not re.fullmatch(r"[\w=.+-]+", name) or name in self._parts:
            problem = "used twice" if name in self._parts else "no plain file name"
            raise ValueError(f"`name` of a part must be new and of letters, digits and =.+-_; {name!r} is {problem}")
        self._parts.add(name)
        path = self._part_file(name)
        if path.exists():
            self._notify(f"{self.name}: {name} was done before")
            return _read_json(path)
        started = time.monotonic()
        self._notify(f"{self.name}: {name} ...")
        part = _plain(compute(), f"part {name!r}")
        _write_json(path, part)
        for checkpoint in self._checkpoints:
            checkpoint.unlink(missing_ok=True)
        self._checkpoints.clear()
        self._save_start()
        self._notify(f"{self.name}: {name} took {time.monotonic() - started:.0f} s")
        return part

    def has(self, name: str) -> bool:
        """Whether a part was computed, in this run or an earlier one."""
        return self._part_file(name).exists()

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


def data_folder(options: RunOptions, name: str, *, files: Sequence[str] = ()) -> Path:
    """Find the folder of a data set: under ``options.data``, or without it in the user's cache.

    Args:
        options: The flags that all experiments share.
        name: Name of the data set.
        files: What must be in the folder, as paths relative to it.

    Returns:
        The folder.

    Raises:
        FileNotFoundError: If it or one of the files is absent; the message says where it should be.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gumdrop"
    folder = (options.data or cache) / name
    if not folder.is_dir():
        given = f"{options.data} has no folder {name!r}" if options.data else f"the data set {name!r} is not in {cache}"
        raise FileNotFoundError(f"{given}; put its files into {folder}, or give the folder above it with --data")
    for file in files:
        if not (folder / file).is_file():
            raise FileNotFoundError(f"{folder} lacks the file {file}; put it there, or correct --data")
    return folder


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
