"""Run the commands that stand in docs/tables.md, and put what they say below them.

Every block that begins with ``$`` is run again, in order and in one folder; the rest of the page stays as it is.
Run with ``make docs-tables``.
"""

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_diabetes

from gumdrop.cli import main as gumdrop

PAGE = Path(__file__).parents[1] / "tables.md"
BLOCK = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)


def write_tables(folder: Path) -> None:
    """Write the patients of the page: real ones, with a number for each and some cells changed.

    Args:
        folder: Where to.
    """
    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    frame["sex"] = frame["sex"].map({1.0: "one", 2.0: "two"})  # the source does not say which is which
    frame.insert(0, "patient", [f"P{i:03}" for i in range(1, len(frame) + 1)])
    frame.loc[frame.index % 15 == 3, "bp"] = None
    frame.iloc[:-5].to_csv(folder / "patients.csv", index=False)
    followed = frame.iloc[-5:].reset_index(drop=True)
    followed.loc[1, "sex"] = "unknown"
    followed.loc[2, "bmi"] *= 10  # a lost decimal point
    followed.to_csv(folder / "followed.csv", index=False)
    known = frame.iloc[:-5]
    known[known["bmi"] >= 31].to_csv(folder / "heavy.csv", index=False)
    new = followed.drop(columns="progression")
    new.to_csv(folder / "new.csv", index=False)
    new[2:3].to_csv(folder / "third.csv", index=False)
    new.rename(columns={"bmi": "BMI", "sex": "gender"}).to_csv(folder / "renamed.csv", index=False)
    pd.DataFrame(new).to_parquet(folder / "new.parquet")


def run(command: str) -> str:
    """Run a command of the page in this folder.

    Args:
        command: `gumdrop ...`, or `head -N FILE`.

    Returns:
        What it writes on a terminal of 80 columns.
    """
    words = shlex.split(command)
    if words[0] == "head":
        return "".join(Path(words[2]).read_text(encoding="utf-8").splitlines(keepends=True)[: int(words[1][1:])])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = gumdrop(words[1:])
    text = "\n".join(line.rstrip() for line in said.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + ("\n" if not status else f"\n(exit status {status})\n")


def filled(page: str, answer: Callable[[str], str] = run) -> str:
    """Put the answers of its commands into a page.

    Args:
        page: The page.
        answer: Gives what a command says.

    Returns:
        The page with new answers.
    """
    return BLOCK.sub(lambda block: f"```console\n$ {block[1]}\n{answer(block[1])}```", page)


def main() -> None:
    """Write docs/tables.md again."""
    os.environ["COLUMNS"] = "80"
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write_tables(Path(folder))
            text = filled(PAGE.read_text(encoding="utf-8"))
        finally:
            os.chdir(before)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
