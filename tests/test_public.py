"""What users rely on by name: a change of it is a decision, and stands in the changelog."""

import os
from importlib import import_module
from pathlib import Path

from gumdrop.cli.commands import app

WRITTEN = Path(__file__).with_name("public.txt")
FACES = ("gumdrop", "gumdrop.estimators", "gumdrop.tables")
OF_EXPERIMENTS = "reproduce"
"""A command whose flags are those of the experiments, which may move."""


def public() -> list[str]:
    """Names of the faces, and the commands with their flags, as they are now."""
    names = [f"{face}.{name}" for face in FACES for name in import_module(face).__all__]
    for command in app:
        names.append(f"gumdrop {command}")
        if not command.startswith("-") and command != OF_EXPERIMENTS:
            arguments = app[command].assemble_argument_collection()
            names += [f"gumdrop {command} {name}" for argument in arguments for name in argument.names]
    return sorted(names)


def test_the_public_surface_is_the_one_written_down() -> None:
    found = public()
    if os.environ.get("GUMDROP_WRITE_GOLDEN"):
        WRITTEN.write_text("\n".join(found) + "\n", encoding="utf-8")
    known = WRITTEN.read_text(encoding="utf-8").splitlines()
    new, gone = sorted(set(found) - set(known)), sorted(set(known) - set(found))
    assert found == known, (
        f"names, commands or flags that users rely on have changed: new are {new}, gone are {gone}. If that is meant, "
        "say it in CHANGELOG.md, and write tests/public.txt anew: GUMDROP_WRITE_GOLDEN=1 pytest tests/test_public.py"
    )
