"""What commands say: words for people, or one JSON object for machines."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from gumdrop.machine.numerals import readable

# On a screen, text is wrapped between words; in a pipe a line stays one.
out_console = Console(highlight=False)
err_console = Console(highlight=False, stderr=True)


class Voice:
    """What a command says: words for a person; or one JSON object for a machine, and words to standard error."""

    def __init__(self, machine: bool = False, *, is_piped: bool = False) -> None:
        self._machine, self._console = machine, err_console if machine or is_piped else out_console

    def answer(
        self,
        told: Mapping[str, object],
        show: Callable[["Voice"], object],
        page: Path | None = None,
        write: Callable[[Path], object] = lambda page: None,
    ) -> None:
        """Give what was found: as a page if one is wanted, and as an object or shown."""
        if page is not None:
            write(page)
        if self._machine:
            print_json({**told, **({} if page is None else {"page": str(page)})})
        else:
            show(self)
        if page is not None:
            self.say(f"Look at  {page}")

    def say(self, text: str) -> None:
        """Print a sentence, wrapped on a screen and on one line in a pipe."""
        self._console.print(text, markup=False, soft_wrap=not self._console.is_terminal)

    def say_all(self, notes: Iterable[str]) -> None:
        """Print a sentence for each thing that a reader should know."""
        for note in notes:
            self.say(note)

    def show(
        self,
        title: str,
        heads: Iterable[str],
        rows: Iterable[Sequence[str] | None],
        *,
        numbers_from: int = 1,
        whole_names: bool = False,
    ) -> None:
        """Print a table, as narrow as a screen, and in a pipe as wide as it is; in place of a row None is a line."""
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(heads):
            justify: Literal["left", "right"] = "right" if i >= numbers_from else "left"
            table.add_column(name, justify=justify, overflow="fold", no_wrap=whole_names and not i)
        for row in rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*row)
        console = self._console
        if not console.is_terminal:
            table.width = console.measure(table, options=console.options.update(max_width=1000)).maximum
        console.print(table, soft_wrap=not console.is_terminal)


def say(text: str) -> None:
    """Print a sentence to standard output, on one line, so that a path in it can be copied."""
    out_console.print(text, markup=False, soft_wrap=True)


def print_json(contents: Mapping[str, object]) -> None:
    """Write the one JSON object of a command for machines to standard output."""
    print(json.dumps(contents, allow_nan=False, ensure_ascii=False))


def shown_score(value: float | None) -> str:
    """A score, if there is one."""
    return "" if value is None else readable(value)
