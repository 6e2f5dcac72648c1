"""What there is to say of an experiment before it is run, the flags that all share, its own, and where data are."""

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self, dataclass_transform

from gumdrop_experiments.data.download import RemoteFile, cache_folder, fetch
from gumdrop_experiments.harness.plain import Plain

Launcher = Literal["processes", "submitit"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags that all experiments share."""

    data: Path | None = None
    """Folder that holds a folder for each data set, as DIR/uci and DIR/mnist."""
    out: Path | None = None
    """Folder for results, figures and the page; by default `runs/NAME`."""
    seed: int = 0
    """Seed of everything random."""
    quick: bool = False
    """Run the same code on a smaller problem, in minutes."""
    device: str = "cpu"
    """Where to train, as torch spells it: cpu, cuda, cuda:1, mps."""
    resume: bool = False
    """Go on with a run that was stopped."""
    jobs: int = 1
    """Parts to compute at a time, each in a process of its own."""
    launcher: Launcher = "processes"
    """Where these processes run: on this machine, or where submitit puts them, which is Slurm if there is `sbatch`."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.jobs < 1:
            raise ValueError(f"`jobs` must be at least 1, got {self.jobs}")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}")

    def seeds(self, count: int) -> range:
        """So many seeds, from that of the run on."""
        return range(self.seed, self.seed + count)


@dataclass(frozen=True, kw_only=True)
class About:
    """What there is to say of an experiment before it is run."""

    shows: str
    """What it shows, in one line of the list, and at the head of its help."""
    minutes: tuple[float, float]
    """How long its run took, on one core of an ordinary machine, and how long it takes with `--quick`."""
    source: str
    """Where the published figures come from."""
    data: tuple[str, ...] = ()
    """The data sets that it reads: folders in that of `--data`."""
    threads: int | None = 1
    """Threads that torch computes with; None leaves their number, or leaves it to the study."""
    estimated: bool = False
    """Whether the minutes of a whole run are an estimate, because no run has gone to its end."""


def flag(
    default: Any,
    *,
    least: float | None = None,
    positive: bool = False,
    quick: float | None = None,
    recorded: bool = True,
    known: tuple[str, str] | None = None,
) -> Any:
    """Give a flag its default, and say what is known of its values; None leaves the choice to the experiment.

    It is at least this, or positive, as each of its numbers is; in a quick run at most that, and that where it is None.
    What is recorded identifies a run, and ``--resume`` must repeat it. Where it is names, ``known`` says what they are
    called, and where the names that there are can be found, which is looked up when a run begins.
    """
    said = {"least": least, "positive": positive, "quick": quick, "recorded": recorded, "known": known}
    return dataclasses.field(default=default, metadata=said)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(flag,))
@dataclass(frozen=True, kw_only=True)
class BaseSettings:
    """The flags of an experiment: each field of a subclass is one, and its docstring the help; `flag` says the rest.

    A subclass is a frozen dataclass without being told so.
    """

    def __init_subclass__(cls) -> None:
        """Make a subclass a frozen dataclass."""
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        """Check the ranges."""
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), field.metadata.get("least")
            if value is None:
                continue
            if least is not None and value < least:
                raise ValueError(f"`{field.name}` must be at least {least:g}, got {value}")
            numbers = value if isinstance(value, tuple) else (value,)
            if field.metadata.get("positive") and not all(0 < number < math.inf for number in numbers):
                wanted = "two positive numbers" if isinstance(value, tuple) else "positive"
                raise ValueError(f"`{field.name}` must be {wanted}, got {' and '.join(f'{n:g}' for n in numbers)}")

    def quick(self) -> Self:
        """Return settings for a smaller problem, which take minutes."""
        most = {f.name: f.metadata["quick"] for f in dataclasses.fields(self) if f.metadata.get("quick") is not None}
        given = {name: getattr(self, name) for name in most}
        smaller = {name: limit if given[name] is None else min(given[name], limit) for name, limit in most.items()}
        return dataclasses.replace(self, **smaller)

    def for_run(self, options: RunOptions) -> Self:
        """Check names; return the settings of one run, which it records and which ``--resume`` must repeat."""
        for field in dataclasses.fields(self):
            if known_by := field.metadata.get("known"):
                what, (module, _, choices) = known_by[0], known_by[1].rpartition(".")
                given = getattr(self, field.name)
                known(what, (given,) if isinstance(given, str) else given, getattr(import_module(module), choices))
        return self.quick() if options.quick else self

    def recorded(self) -> Plain:
        """Return what identifies a run, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.metadata.get("recorded", True)}


def known(what: str, names: Collection[str], choices: Collection[str]) -> tuple[str, ...]:
    """Check names that were given."""
    for name in names:
        if name not in choices:
            raise ValueError(f"there is no {what} {name!r}; there are: {', '.join(choices)}")
    return tuple(dict.fromkeys(names))


def sets_of(options: RunOptions, name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Take the sets that were named, or all, of a data set with a folder for each."""
    folders = sorted(path.name for path in data_folder(options, name).iterdir() if path.is_dir())
    return known("set", given, folders) or tuple(folders)


def data_folder(
    options: RunOptions, name: str, *, files: Sequence[str] = (), sources: Sequence[RemoteFile] = ()
) -> Path:
    """Find the folder of a data set: under ``options.data``, or without it in the user's cache."""
    cache = cache_folder()
    folder = (options.data or cache) / name
    if options.data is None:
        fetch(sources, folder)
    if not folder.is_dir():
        given = f"{options.data} has no folder {name!r}" if options.data else f"the data set {name!r} is not in {cache}"
        raise FileNotFoundError(f"{given}; put its files into {folder}, or give the folder above it with --data")
    for file in files:
        if not (folder / file).is_file():
            raise FileNotFoundError(f"{folder} lacks the file {file}; put it there, or correct --data")
    return folder
