"""Links of the Markdown pages that lead out of the site.

The pages are read in the repository, too, where a link may lead to a folder of the code. On the site a link to a room
leads to its page of the API, one to an example to its page of the gallery; any other folder keeps its text alone. A
link whose text is the name of a page has the title in its place.
"""

import re
from pathlib import Path
from typing import Any

from api_pages import ROOMS, page_of_room
from sphinx.application import Sphinx

NAMED = re.compile(r"\[([\w-]+\.md)\]\((\1(?:#[\w-]+)?)\)")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)\)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Change the text of pages as they are read."""
    app.connect("source-read", lambda app, page, source: _resolve(Path(app.srcdir), page, source))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _resolve(docs: Path, page: str, source: list[str]) -> None:
    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if target.startswith("gallery/"):
            return f"[{text}](/generated/gallery/{Path(target).stem.replace('README', 'index')}.rst)"
        place = (docs / page).parent / target
        if not place.is_dir():
            return match[0]
        room = ".".join(place.resolve().parts[-2:])
        return f"[{text}](/{page_of_room(room)}.rst)" if room in ROOMS else text

    if not page.startswith("generated"):
        source[0] = NAMED.sub(r"[](\2)", LINK.sub(link, source[0]))
