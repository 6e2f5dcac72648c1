"""The interactive page: its files, runs to show on it, and a small local server, which only gives out files."""

import base64
import contextlib
import errno
import hashlib
import json
import mimetypes
import os
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.tables.errors import TableError
from gumdrop.tables.results import RESULTS_FILE, FitResults
from gumdrop.views.report import render

STATIC = Path(__file__).parent / "static"
SCRIPT = re.compile(r'<script src="([\w-]+\.js)"( data-worker)?></script>')
STYLE = re.compile(r'<link rel="stylesheet" href="([\w./-]+)">')
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
WIDGET = ("landscape-terms.js", "landscape-look.js", "landscape.js")
"""Scripts of the widget, which are one script where it is copied."""
MARK = "gumdrop-page.txt"
"""A file by which a folder of ours is known, and may be written again."""


class RunError(ValueError):
    """A folder that holds no run; the message says what to do."""


@dataclass(frozen=True)
class Run:
    """A run that can be shown."""

    title: str
    """What it is, in a few words."""
    note: str
    """The command that made it, and how long it took."""
    html: str
    """Its report, which needs nothing from outside."""


def open_runs(folders: Iterable[Path]) -> list[Run]:
    """Open folders that `gumdrop fit` or `gumdrop reproduce` left; refuse any other."""
    return [_open(folder) for folder in folders]


def _open(folder: Path) -> Run:
    path, report = folder / RESULTS_FILE, folder / "report.html"
    if not path.is_file():
        unfinished = " (it was stopped: repeat its command with --resume)" if (folder / "run.json").is_file() else ""
        raise RunError(f"{folder} holds no results.json{unfinished}; give a folder of `gumdrop fit` or `reproduce`")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); run its command again to write it") from error
    if isinstance(results, dict) and "experiment" in results:
        if not report.is_file():
            raise RunError(f"{folder} has no report.html: repeat its command with --resume to write it")
        title, note = f"Experiment {results['experiment']}", str(results.get("command", ""))
        return Run(title, note, report.read_text(encoding="utf-8"))
    try:
        fit = FitResults.from_json(results, path)
    except TableError as error:
        raise RunError(f"{folder} is of no run of gumdrop that this one can show: {error}") from error
    html = report.read_text(encoding="utf-8") if report.is_file() else render(fit, folder=folder.resolve().name)
    return Run(f"Predicting {fit.target.name}", f"gumdrop fit {fit.table.name}, {fit.table.rows} rows", html)


def page_files(runs: Sequence[Run] = ()) -> dict[str, bytes]:
    """Build the files of the page: itself, and what is there to be copied elsewhere."""
    return {
        "index.html": _page(runs),
        "loss-landscape.js": "".join(map(_read, WIDGET)).encode(),
        "preview.png": (STATIC / "preview.png").read_bytes(),
    }


def _page(runs: Sequence[Run]) -> bytes:
    """The page with everything in it."""
    safe = json.dumps([vars(run) for run in runs]).replace("<", "\\u003c")  # JSON that may stand in a script

    def inline(tag: re.Match[str]) -> str:
        code = f"Gumdrop.runs = {safe};\n" if tag[1] == "runs.js" else _read(tag[1])
        return f"<script{tag[2] or ''}>\n{code}</script>"

    page = STYLE.sub(lambda tag: f"<style>\n{_read(tag[1])}</style>", _read("index.html"))
    return SCRIPT.sub(inline, page).encode()


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def write_site(path: str | os.PathLike[str], *, runs: Sequence[Run] = ()) -> Path:
    """Return the file to look at: the page as one file if its name ends in .html, else as files into a folder of ours.

    Raises:
        ValueError: If something else is there.
    """
    path = Path(path)
    index, contents = path, {}
    if path.suffix.lower() in (".html", ".htm"):
        mark = b"<title>gumdrop explore</title>"
        if path.exists() and not (path.is_file() and mark in path.read_bytes()):
            raise ValueError(f"{path} is something else than this page; name another file with --out")
        contents[path] = _page(runs)
    else:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; name a folder with --out")
        if path.is_dir() and any(path.iterdir()) and not (path / MARK).is_file():
            raise ValueError(f"{path} holds something that is not this page; name another folder with --out")
        index = path / "index.html"
        contents[path / MARK] = b"Written by `gumdrop explore --out`, which may write it again.\n"
        contents |= {path / name: content for name, content in page_files(runs).items()}
    fresh, made = ([each for each in paths if not each.exists()] for paths in (contents, index.parents))
    try:
        for name, content in contents.items():
            with replacing(name, "wb") as new:
                new.write(content)
    except BaseException:  # no part of a page, which a later call would take for somebody else's
        for file in fresh:
            file.unlink(missing_ok=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return index


def content_policy(page: bytes) -> str:
    """Policy of the page: the scripts that are in it, a worker made of them, and nothing from anywhere else."""
    scripts = re.findall(rb"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(code).digest()).decode()}'" for code in scripts]
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(hashes),
        "worker-src": "blob:",
        "style-src": "'unsafe-inline'",  # a report that is shown has its style inside, and this policy
        "img-src": "'self' data:",
        "media-src": "blob:",
        "frame-src": "blob:",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def make_server(listener: socket.socket, *, runs: Sequence[Run] = (), host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Build the server."""
    files = page_files(runs)
    policy = content_policy(files["index.html"])
    names = LOOPBACK if host in {"127.0.0.1", "::1", "localhost"} else None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            name = self.path.partition("?")[0].removeprefix("/") or "index.html"
            host = self.headers.get("Host", "")  # whose port does not count
            host = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.split(":")[0]
            if names is not None and host not in names:
                self._answer(403, b"This server answers its own page only.", "text/plain")
            elif name not in files:
                self._answer(404, b"There is no such page.", "text/plain")
            else:
                media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
                self._answer(200, files[name], media_type, policy)

        do_HEAD = do_GET

        def _answer(self, status: int, content: bytes, media_type: str, rules: str = "default-src 'none'") -> None:
            self.send_response(status)
            described = {"Content-Type": f"{media_type}; charset=utf-8", "Content-Length": str(len(content))}
            for header, value in {**HEADERS, **described, "Content-Security-Policy": rules}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            """Say nothing of what is asked."""

    server = ThreadingHTTPServer(listener.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    return server


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on a port, or on another one if that is taken; any free one if it is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        try:
            return socket.create_server((host, port), family=family)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return socket.create_server((host, 0), family=family)
    except OSError as error:
        raise OSError(f"cannot listen on {host} ({error.strerror or error}); see --host") from error


def serve(listener: socket.socket, *, runs: Sequence[Run] = (), host: str = "127.0.0.1") -> None:
    """Serve until interrupted (Ctrl-C), then return."""
    with make_server(listener, runs=runs, host=host) as server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
