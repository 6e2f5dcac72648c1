"""A small local server: the page, a live session for each open tab, and the runs that it was given.

A tab is one websocket and one session; closing it ends the session. All sessions train on one thread, in turn, so
that the page never takes more than one core and one seed gives one result.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from gumdrop.views.explore.messages import MessageError, parse
from gumdrop.views.explore.runs import Run
from gumdrop.views.explore.session import Session
from gumdrop.views.explore.site import page_files

__all__ = ["make_app", "open_socket", "serve"]

MAX_SESSIONS = 8
MAX_MESSAGE = 16_384
"""Bytes; 200 points take about 8,000."""
MAX_WAITING = 64
"""Messages that may wait; who sends more before they are read has to wait for the network."""
MAX_MISTAKES = 100
"""Unusable messages after which a tab is cut off."""
SLICE, PAUSE = 0.06, 0.03
"""Seconds of training for each frame, and of rest after it."""

CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # a report that is opened from disk has its style inside, and this policy
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-src 'self' blob:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
RUN_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


def make_app(*, runs: Sequence[Run] = (), host: str = "127.0.0.1") -> Starlette:
    """Build the web application.

    Args:
        runs: Runs to show.
        host: Address that it is bound to. On a loopback address only requests to a loopback name are answered, so
            that no other site can reach it by a name of its own.

    Returns:
        The application.
    """
    files = page_files(runs, live=True)
    sessions = _Sessions()

    async def page(request: Request) -> Response:
        name = request.path_params["path"] or "index.html"
        if name not in files:
            return PlainTextResponse("There is no such page.", status_code=404, headers=HEADERS)
        content, media_type = files[name]()
        policy = RUN_POLICY if name.startswith("runs/") else CONTENT_POLICY
        return Response(content, media_type=media_type, headers=HEADERS | {"Content-Security-Policy": policy})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with sessions.worker:
            yield

    routes = [WebSocketRoute("/live", sessions.serve), Route("/{path:path}", page)]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.add_middleware(_OwnOrigin, names=LOOPBACK if host in {"127.0.0.1", "::1", "localhost"} else None)
    return app


class _OwnOrigin:
    """Answer only what comes from this page itself: a known host name, and an origin that is that host.

    Starlette's `TrustedHostMiddleware` looks at the name alone, refuses with another status, and reads addresses of
    IPv6 in its later versions only.
    """

    def __init__(self, app: ASGIApp, names: set[str] | None) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_own(Headers(scope=scope), scope["type"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: status 403
        else:
            await PlainTextResponse("This server answers its own page only.", status_code=403)(scope, receive, send)

    def _is_own(self, headers: Headers, kind: str) -> bool:
        host = headers.get("host", "")
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.split(":")[0]
        if self.names is not None and name not in self.names:
            return False
        origin = headers.get("origin")
        if origin is None:
            return kind != "websocket"  # every browser sends the origin of a websocket
        return origin in {f"http://{host}", f"https://{host}"}


class _Sessions:
    """The sessions of all tabs, and the thread that trains them."""

    def __init__(self) -> None:
        self.worker = ThreadPoolExecutor(1, "gumdrop-training", initializer=torch.set_num_threads, initargs=(1,))
        self.open = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.worker, function, *arguments)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one tab until it closes."""
        await websocket.accept()
        if self.open >= MAX_SESSIONS:
            await _say(websocket, {"type": "error", "message": f"{MAX_SESSIONS} tabs are open; close one first"})
            await websocket.close(1013)
            return
        self.open += 1
        try:
            await self._live(websocket)
        finally:
            self.open -= 1

    async def _live(self, websocket: WebSocket) -> None:
        waiting: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)
        listener = asyncio.create_task(_listen(websocket, waiting))
        try:
            session = await self.run(Session)
            await self._exchange(websocket, session, waiting)
        except WebSocketDisconnect:
            pass  # the tab was closed while a frame was on its way
        finally:
            listener.cancel()

    async def _exchange(self, websocket: WebSocket, session: Session, waiting: asyncio.Queue[str | None]) -> None:
        mistakes = 0
        while True:
            while session.state != "training" or not waiting.empty():
                if waiting.empty():  # nothing will change until something is asked: show that, and wait for it
                    await self._show(websocket, session)
                text = await waiting.get()
                if text is None:
                    return
                try:
                    await self.run(session.apply, parse(text))
                except MessageError as error:
                    mistakes += 1
                    await _say(websocket, {"type": "error", "message": str(error)})
                if mistakes > MAX_MISTAKES:
                    await websocket.close(1008)
                    return
            await self.run(session.advance, SLICE)
            await self._show(websocket, session)
            await asyncio.sleep(PAUSE)

    async def _show(self, websocket: WebSocket, session: Session) -> None:
        await _say(websocket, {"type": "frame", **await self.run(session.frame)})


async def _listen(websocket: WebSocket, waiting: asyncio.Queue[str | None]) -> None:
    """Put what a tab says in the queue, and None at its end."""
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                break
            await waiting.put(message.get("text") or "")  # bytes are no JSON text either
    await waiting.put(None)


async def _say(websocket: WebSocket, content: Mapping[str, object]) -> None:
    await websocket.send_text(json.dumps(content, separators=(",", ":"), allow_nan=False))


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on a port, or on another one if that is taken.

    Args:
        host: Address to bind to.
        port: Port to try first; any free one if 0.

    Returns:
        The socket.

    Raises:
        OSError: If the address is none of this machine.
    """
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
    """Serve until interrupted (Ctrl-C); then close all tabs' sessions and return.

    Args:
        listener: From `open_socket`.
        runs: Runs to show.
        host: Address that the socket is bound to.
    """
    _Server(_configure(make_app(runs=runs, host=host))).run(sockets=[listener])


def _configure(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        timeout_graceful_shutdown=10,
        server_header=False,
    )


class _Server(uvicorn.Server):
    """A server for which Ctrl-C is the ordinary end: it closes everything, and does not raise the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        kinds = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
