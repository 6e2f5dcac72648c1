"""A small local server of the page and of the runs that it was given. It only gives out files, and keeps nothing."""

import base64
import contextlib
import errno
import hashlib
import mimetypes
import re
import socket
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gumdrop.views.explore.site import Run, page_files

RUN_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


def content_policy(page: bytes) -> str:
    """Policy of the page: the scripts that are in it, a worker made of them, and nothing from anywhere else."""
    scripts = re.findall(rb"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(code).digest()).decode()}'" for code in scripts]
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(hashes),
        "worker-src": "blob:",
        "style-src": "'unsafe-inline'",  # a report that is opened from disk has its style inside, and this policy
        "img-src": "'self' data:",
        "media-src": "blob:",
        "frame-src": "'self' blob:",
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
                self._answer(200, files[name], media_type, RUN_POLICY if name.startswith("runs/") else policy)

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
