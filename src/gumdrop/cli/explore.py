"""``gumdrop explore``: the interactive page, served or written."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from gumdrop.views.terminal import say


def explore(
    *,
    out: Path | None = None,
    run: Annotated[tuple[Path, ...], Parameter(negative="", consume_multiple=True)] = (),
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 8765,
) -> None:
    """Open the interactive page: watch a posterior being learned, push the objective, look at runs.

    Args:
        out: Write the page instead of serving it: as one file if the name ends in .html, else as files into a folder.
        run: Folders of `gumdrop fit` or `gumdrop reproduce` to show.
        host: Address to serve on; by default this machine alone can reach it.
        port: Port to serve on; another one if it is taken.
    """
    from gumdrop.views.explore import open_runs, open_socket, serve, write_site

    runs = open_runs(run)
    if out is not None:
        say(f"Look at  {write_site(out, runs=runs)}")
        return
    with open_socket(host, port) as listener:
        actual_port = listener.getsockname()[1]
        if actual_port != port and port:
            say(f"Port {port} is taken, so another one is used.")
        name = f"[{host}]" if ":" in host else host
        say(f"Look at  http://{name}:{actual_port}/   (Ctrl-C stops it)")
        serve(listener, runs=runs, host=host)
    say("Stopped.")
