"""The server of the interactive page: who may ask, what it survives, and how it stops."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from gumdrop.views.explore import open_runs, open_socket, server

from builders.servers import running
from builders.waiting import HANG, until

POINTS = json.dumps({"type": "points", "points": [[-1, 0.5], [0, 0], [1, -0.5]]})


@pytest.fixture(scope="module")
def port():
    with running() as port:
        yield port


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    headers = {"Host": f"127.0.0.1:{port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def tab(port, **options):
    patience = {"open_timeout": HANG, "close_timeout": HANG, "ping_timeout": HANG}
    options = {"origin": f"http://127.0.0.1:{port}", **patience} | options
    return connect(f"ws://127.0.0.1:{port}/live", **options)


def seat(port, stack):
    """A tab with a session, once one that was closed has left its own; one that must wait is told so, and closed."""

    def try_one():
        live = stack.enter_context(tab(port))
        return live if json.loads(live.recv(timeout=HANG))["type"] == "frame" else live.close()

    return until(try_one, "sessions of closed tabs go on")


def next_of(live, kind, such_that=lambda message: True):
    for _ in range(200):
        message = json.loads(live.recv(timeout=HANG))
        if message["type"] == kind and such_that(message):
            return message
    raise AssertionError(f"no such {kind}")


def test_the_page_and_its_files_are_served(port) -> None:
    response, body = ask(port)
    assert response.status == 200
    assert b'data-mode="live"' in body
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    names = re.findall(r'(?:src|href)="([\w-]+\.(?:js|css))"', body.decode())
    assert len(names) >= 8
    for name in names:
        response, _ = ask(port, f"/{name}")
        assert response.status == 200
        assert response.headers["Content-Type"].split(";")[0] in {"text/javascript", "text/css"}


@pytest.mark.parametrize("path", ["/absent.js", "/../cli.py", "/..%2fcli.py", "//etc/passwd", "/runs/x.html", "/%00"])
def test_nothing_else_is(port, path: str) -> None:
    response, body = ask(port, path)
    assert response.status == 404
    assert body == b"There is no such page."


def test_another_host_name_or_origin_is_refused(port) -> None:
    assert ask(port, Host="evil.example")[0].status == 403
    assert ask(port, Host=f"evil.example:{port}")[0].status == 403
    assert ask(port, Origin="http://evil.example")[0].status == 403
    assert ask(port, Origin=f"http://127.0.0.1:{port}")[0].status == 200
    assert ask(port, Host=f"localhost:{port}")[0].status == 200
    assert ask(port, Host=f"[::1]:{port}")[0].status == 200


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1", "file://"])
def test_a_socket_of_another_page_is_refused(port, origin) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        tab(port, origin=origin)


def test_with_an_address_of_the_network_any_name_of_the_server_will_do() -> None:
    with running(host="0.0.0.0") as port:
        assert ask(port, Host="workstation:80", Origin="http://workstation:80")[0].status == 200
        assert ask(port, Host="workstation:80", Origin="http://evil.example")[0].status == 403


def test_a_tab_trains(port) -> None:
    with tab(port) as live:
        assert next_of(live, "frame")["state"] == "empty"
        live.send(POINTS)
        mean = next_of(live, "frame", lambda frame: frame["steps"] > 200)["mean"]
        assert mean[40] > 0.15  # at x = -1, where the point says 0.5
        assert mean[80] < -0.15


def test_a_paused_tab_rests_and_goes_on(port) -> None:
    with tab(port) as live:
        live.send(POINTS)
        live.send('{"type": "pause", "paused": true}')
        steps = next_of(live, "frame", lambda frame: frame["state"] == "paused")["steps"]
        with pytest.raises(TimeoutError):
            live.recv(timeout=0.4)
        live.send('{"type": "pause", "paused": false}')
        assert next_of(live, "frame")["steps"] > steps


def test_garbage_is_answered_and_survived(port) -> None:
    with tab(port) as live:
        live.send(POINTS)
        for garbage in ("", "{", "null", b"\x00\x01", '{"type": "points", "points": [[9, 9]]}', "[" * 10_000):
            live.send(garbage)
            assert next_of(live, "error")["message"]
        steps = next_of(live, "frame")["steps"]
        assert next_of(live, "frame")["steps"] > steps


def test_too_much_garbage_and_too_long_a_message_end_a_tab_and_no_other(port) -> None:
    with tab(port) as good:
        good.send(POINTS)
        with tab(port) as long:
            long.send(POINTS[:-2] + " " * 20_000 + "]}")
            with pytest.raises(ConnectionClosed, match="1009"):
                next_of(long, "error")
        with tab(port) as noisy:
            for _ in range(server.MAX_MISTAKES + 1):
                noisy.send("?")
            with pytest.raises(ConnectionClosed, match="1008"):
                next_of(noisy, "frame", lambda frame: False)
        steps = next_of(good, "frame")["steps"]
        next_of(good, "frame", lambda frame: frame["steps"] > steps)


def test_two_tabs_learn_from_their_own_points(port) -> None:
    with tab(port) as one, tab(port) as other:
        one.send(json.dumps({"type": "points", "points": [[0, 2]] * 10}))
        other.send(json.dumps({"type": "points", "points": [[0, -2]] * 10}))
        means = [next_of(each, "frame", lambda frame: frame["steps"] > 100)["mean"][60] for each in (one, other)]
        assert means[0] > 0.5
        assert means[1] < -0.5


def test_a_closed_tab_leaves_nothing_behind() -> None:
    with running() as port:
        for i in range(server.MAX_SESSIONS + 4):  # more than there is room for at once
            with contextlib.ExitStack() as stack:
                live = seat(port, stack)
                live.send(POINTS)
                if i % 2:
                    live.socket.shutdown(socket.SHUT_RDWR)  # the browser crashed; the others close in order
        with contextlib.ExitStack() as stack:
            for _ in range(server.MAX_SESSIONS):  # and there is room for as many again
                seat(port, stack)


def test_one_tab_too_many_is_told_so() -> None:
    with running() as port, contextlib.ExitStack() as stack:
        for _ in range(server.MAX_SESSIONS):
            next_of(stack.enter_context(tab(port)), "frame")
        late = stack.enter_context(tab(port))
        assert "8 tabs are open" in next_of(late, "error")["message"]
        with pytest.raises(ConnectionClosed):
            late.recv(timeout=HANG)


def test_runs_are_served_in_a_sandbox(tmp_path) -> None:
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / "results.json").write_text('{"experiment": "sums", "command": "gumdrop reproduce sums"}')
    (folder / "report.html").write_text("<p>It was 10.</p>")
    with running(runs=open_runs([folder])) as port:
        _, listed = ask(port, "/runs.js")
        assert b'"title": "Experiment sums"' in listed
        response, body = ask(port, "/runs/my-run.html")
        assert body == b"<p>It was 10.</p>"
        assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_a_taken_port_gives_another_one() -> None:
    with open_socket("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with open_socket("127.0.0.1", taken) as second:
            assert second.getsockname()[1] not in (0, taken)
            assert second.getsockname()[0] == "127.0.0.1"


def test_an_address_of_another_machine_is_explained() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1 .*; see --host"):
        open_socket("192.0.2.1", 0)


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_the_command_serves_on_this_machine_alone_and_stops_on_ctrl_c() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        words = [sys.executable, "-c", "from gumdrop.cli.commands import main; raise SystemExit(main())"]
        process = subprocess.Popen(
            [*words, "explore", "--port", str(taken)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            assert lines[0] == f"Port {taken} is taken, so another one is used.\n"
            port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", lines[1])[1])
            with tab(port) as live:
                live.send(POINTS)
                next_of(live, "frame", lambda frame: frame["steps"] > 0)
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=HANG)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == "Stopped.\n"
    assert errors == ""


def test_the_server_library_does_what_is_asked_of_it() -> None:
    config = server._configure(server.make_app())
    config.load()
    assert isinstance(config, uvicorn.Config)
    assert config.ws_max_size == server.MAX_MESSAGE
