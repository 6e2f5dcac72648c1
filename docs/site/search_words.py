"""Words that a search of the site finds a guide by, besides those of its text.

Below a heading of a page stands `<!-- search: prediction interval, quantile -->`, which is not to be seen in the
repository. On the site these are entries of the index, and the search puts entries of the index first.
"""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

WORDS = re.compile(r"^<!-- search: (.*?) -->$", re.DOTALL | re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Change the comments of pages as they are read."""
    app.connect("source-read", _write_entries)
    app.connect("env-updated", _pages_with_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_entries(app: Sphinx, page: str, source: list[str]) -> None:
    def entries(match: re.Match[str]) -> str:
        return "```{index} " + ", ".join(f"!{' '.join(words.split())}" for words in match[1].split(",")) + "\n```"

    source[0] = WORDS.sub(entries, source[0])


def _pages_with_words(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write these pages each time: the search forgets the entries of a page that is left as it was."""
    return [page for page in env.found_docs if WORDS.search(env.doc2path(page).read_text(encoding="utf-8"))]
