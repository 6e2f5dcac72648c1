"""The interactive page: a posterior to watch being learned, the objective to push, and runs to open.

All of it happens in the browser. `serve` gives the page on this machine, `write_site` writes it as files.
"""

from gumdrop.views.explore.server import open_runs, open_socket, serve, write_site

__all__ = ["open_runs", "open_socket", "serve", "write_site"]
