"""``gumdrop compare``: folders of `gumdrop fit` side by side."""

from functools import partial
from pathlib import Path

from gumdrop.cli.flags import Flag, Json
from gumdrop.cli.paths import check_free
from gumdrop.tables.errors import STDIN
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.views.terminal import Voice


def compare(
    first: Path, second: Path, /, *others: Path, out: Path | None = None, overwrite: Flag = False, machine: Json = False
) -> None:
    """Compare fits of one target: their scores, row by row with the first, and what they differ in.

    Args:
        first: What `gumdrop fit` left; the others are compared with it.
        second: Another such folder.
        others: More of them.
        out: Page to write.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error.
    """
    from gumdrop.tables.comparison import compare_runs

    voice = Voice(machine)
    check_free(out, Path(STDIN), overwrite)
    given = (first, second, *others)
    comparison = compare_runs([model_folder(folder, voice.say) for folder in given], list(map(str, given)))

    from gumdrop.views.comparison import show_comparison, write_page

    told = {"command": "compare", **plain(comparison)}
    voice.answer(told, partial(show_comparison, comparison=comparison), out, partial(write_page, comparison))
