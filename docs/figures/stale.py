"""The results files whose code has changed since, and those that do not say what code made them."""

import json
from pathlib import Path
from typing import NamedTuple

from gumdrop_experiments.harness.origin import module_hashes, stale_by

RESULTS = Path(__file__).parents[1] / "results"
UNKNOWN = "unknown code"
MOST_NAMED = 6
"""Changed modules that a line names."""


class Origin(NamedTuple):
    """Code of a results file, and what has become of it."""

    file: str
    commit: str
    clean: bool | None
    changed: list[str] | None
    """Modules that have changed; None where the file does not say what made it."""

    @property
    def by(self) -> str:
        """Name what makes it stale."""
        if self.changed is None:
            return UNKNOWN
        more = f" and {len(self.changed) - MOST_NAMED} more" * (len(self.changed) > MOST_NAMED)
        return ", ".join(self.changed[:MOST_NAMED]) + more


def origins() -> list[Origin]:
    """Compare the code of each results file with the code that is here."""
    found = []
    for path in sorted(RESULTS.glob("*.json")):
        code = json.loads(path.read_text(encoding="utf-8"))
        code = code.get("code") if isinstance(code, dict) else None
        if code is None:
            found.append(Origin(path.stem, "", None, None))
        else:
            changed = stale_by(code["modules"], module_hashes(*code["starts"]))
            found.append(Origin(path.stem, code["commit"], code["clean"], changed))
    return found


def lines() -> list[str]:
    """Say which files are stale and by what, and which do not know their code."""
    known = [origin for origin in origins() if origin.changed is not None]
    unknown = [origin.file for origin in origins() if origin.changed is None]
    stale = [
        f"{origin.file}: of {origin.commit[:12]}, changed since: {origin.by}" for origin in known if origin.changed
    ]
    return [
        *stale,
        f"{len(known) - len(stale)} files are of this code, {len(stale)} stale, {len(unknown)} of {UNKNOWN}",
    ]


def listed() -> str:
    """Mark the files of the page: those of known code that is current, stale ones, and those of unknown code."""
    current, stale, unknown = [], [], []
    for origin in origins():
        name = f"`{origin.file}`"
        if origin.changed is None:
            unknown.append(name)
        elif origin.changed:
            stale.append(f"{name} ({origin.commit[:12]}; {origin.by})")
        else:
            current.append(f"{name} ({origin.commit[:12]})")
    kinds = {"Of the code of this page": current, "Stale": stale, UNKNOWN.capitalize(): unknown}
    return "\n".join(f"- **{kind}** ({len(files)}): {', '.join(files) or 'none'}." for kind, files in kinds.items())
