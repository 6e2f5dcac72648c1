"""One run of an experiment: the folder that it fills, the settings that it is known by, and what it leaves."""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop.machine.numerals import with_minus
from gumdrop.machine.version import VERSION
from gumdrop_experiments.harness.origin import of_experiment
from gumdrop_experiments.harness.parts import Parts
from gumdrop_experiments.harness.plain import Plain, plain, read_json, write_json
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.pages.page import Page, Picture, render

RESULTS_FORMAT = 1


class Run(Parts):
    """A run of an experiment, and the folder that it fills: its parts, and then its figures, results and page.

    The folder is the run's from its first part on; what fails before, such as data that are not there, leaves nothing.
    A folder that holds something else, or a run with other settings, is refused.

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
        self, name: str, options: RunOptions, settings: Plain | None = None, *, notify: Callable[[str], object] = print
    ) -> None:
        super().__init__(name, options.out or Path("runs") / name, options, notify)
        shared = {"seed": options.seed, "quick": options.quick, "device": options.device}
        self._settings = plain({**shared, **(settings or {})}, "the settings")
        self._identity = {"experiment": name, "gumdrop": VERSION, **self._settings}
        recorded = _recorded_in(self.folder, self._identity, options.resume) if self._writes else {}
        self._earlier = float(recorded.get("seconds", 0.0))
        self._code = of_experiment(name)
        self._codes: list[Plain] = recorded.get("codes", []) if recorded else [self._code]
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the time that was spent; an interruption gets the words that say how to go on."""
        if (self.folder / "run.json").exists():
            self._note_time()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"stopped; the same command with --resume goes on in {self.folder}") from error

    def finish(self, results: Plain, page: Page) -> Path:
        """Write the figures, `results.json` and the page; return the page.

        The parts stay: they are small, and with ``resume`` the figures and the page can be drawn again from them.
        """
        report = self.folder / "report.html"
        if not self._writes:
            return report
        self._note_time()
        for picture in page.pictures:
            write_figure(picture, self.folder)
        contents = {
            "format": RESULTS_FORMAT,
            "experiment": self.name,
            "gumdrop": VERSION,
            "command": command_line(self.name, self._settings),
            **self._settings,
            "environment": environment(self.options.device),
            "code": self._codes[-1] if self._codes else None,
            "earlier_codes": [{key: code[key] for key in ("commit", "fingerprint")} for code in self._codes[:-1]],
            "seconds": round(self._seconds(), 1),
            "figures": [f"{picture.name}.png" for picture in page.pictures],
            "results": plain(results, "`results`"),
        }
        write_json(self.folder / "results.json", contents)
        text = render(page, contents)
        with replacing(report) as file:
            file.write(text)
        self._notify(f"Look at  {report}")
        return report

    def _seconds(self) -> float:
        return self._earlier + time.monotonic() - self._began

    def _note_time(self) -> None:
        if self._writes:
            contents = {"settings": self._identity, "seconds": self._seconds(), "codes": self._codes}
            write_json(self.folder / "run.json", contents)

    def _note_code(self) -> None:
        """Record the code of a part that is computed now; a run that goes on under other code has several."""
        if self._code["fingerprint"] in [code["fingerprint"] for code in self._codes]:
            return
        if self._earlier:
            self._notify(f"{self.name}: the code has changed since this run began; its results will name both commits")
        self._codes.append(self._code)


def write_figure(picture: Picture, folder: Path) -> None:
    """Write a figure as PNG."""
    from matplotlib.text import Text

    for text in picture.drawing.findobj(Text):
        text.set_text(with_minus(text.get_text()))
    with replacing(folder / f"{picture.name}.png", "wb") as file:
        picture.drawing.savefig(file, format="png", dpi=150, metadata={"Software": None})
    picture.drawing.set_layout_engine("none")  # the page draws it again, where everything stands by now


def _recorded_in(folder: Path, identity: Plain, resume: bool) -> Plain:
    """Check that a folder is a run's to fill; return what an earlier run in it recorded, if there was one."""
    start = folder / "run.json"
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}
    if not start.is_file():
        raise FileExistsError(f"{folder} holds something that is no run; name another folder with --out")
    recorded: Plain = read_json(start)
    old, new = recorded["settings"], identity
    if not resume:
        raise FileExistsError(
            f"{folder} holds a run of {old.get('experiment')}; add --resume to go on with it, or name another folder "
            "with --out"
        )
    changed = [f"{key} was {old.get(key)}, is {new.get(key)}" for key in old | new if old.get(key) != new.get(key)]
    if changed:
        raise ValueError(
            f"{folder} holds a run with other settings ({'; '.join(changed)}); repeat these, or name another folder "
            "with --out"
        )
    return recorded


def command_line(name: str, settings: Plain) -> str:
    """Write the command that gives the same results; flags that are None or false are left out."""
    words = [f"gumdrop reproduce {name}"]
    for key, value in settings.items():
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] * value
        elif value is not None and value != []:
            words += [flag, shlex.join(map(str, value if isinstance(value, list) else [value]))]
    return " ".join(words)
