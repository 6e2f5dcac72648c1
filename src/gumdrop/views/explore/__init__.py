"""The interactive page: the objective to push, a posterior to watch being learned, and runs to open.

`serve` is the live page on this machine, `write_site` the same as static files with a recorded session.
"""

from gumdrop.views.explore.runs import RunError, open_runs
from gumdrop.views.explore.server import open_socket, serve
from gumdrop.views.explore.site import SiteError, write_site

__all__ = ["RunError", "SiteError", "open_runs", "open_socket", "serve", "write_site"]
