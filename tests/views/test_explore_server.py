"""The server of the interactive page: what it gives, to whom, and how it stops."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from gumdrop.views.explore import open_socket

from builders.servers import running
from builders.waiting import HANG


@pytest.fixture(scope="module")
def port():
    with running() as port:
        yield port


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}", **headers})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_the_page_and_its_files_are_served(port) -> None:
    response, body = ask(port)
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.search(rb'<script[^>]* src=|rel="stylesheet"', body)
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == body.count(b"<script")
    for name, kind in (("loss-landscape.js", "text/javascript"), ("preview.png", "image/png")):
        response, _ = ask(port, f"/{name}?again")
        assert response.status == 200
        assert response.headers["Content-Type"].split(";")[0] == kind


def test_only_the_head_is_given_where_that_is_asked(port) -> None:
    response, body = ask(port, method="HEAD")
    assert (response.status, body) == (200, b"")
    assert int(response.headers["Content-Length"]) > 50_000
    assert ask(port, method="POST")[0].status == 501


@pytest.mark.parametrize("path", ["/absent.js", "/../cli.py", "/..%2fcli.py", "//etc/passwd", "/%00"])
def test_nothing_else_is(port, path: str) -> None:
    response, body = ask(port, path)
    assert response.status == 404
    assert body == b"There is no such page."


def test_another_host_name_is_refused(port) -> None:
    assert ask(port, Host="evil.example")[0].status == 403
    assert ask(port, Host=f"evil.example:{port}")[0].status == 403
    assert ask(port, Host=f"localhost:{port}")[0].status == 200
    assert ask(port, Host=f"[::1]:{port}")[0].status == 200


def test_with_an_address_of_the_network_any_name_of_the_server_will_do() -> None:
    with running(host="0.0.0.0") as port:
        assert ask(port, Host="workstation:80")[0].status == 200


def test_a_taken_port_gives_another_one() -> None:
    with open_socket("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with open_socket("127.0.0.1", taken) as second:
            assert second.getsockname()[1] not in (0, taken)
            assert second.getsockname()[0] == "127.0.0.1"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_the_command_serves_on_this_machine_alone_and_stops_on_ctrl_c() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        code = (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell may have it ignored
        )
        code += "from gumdrop.cli.commands import main; raise SystemExit(main())"
        words = [sys.executable, "-c", code, "explore", "--port", str(taken)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            assert lines[0] == f"Port {taken} is taken, so another one is used.\n"
            port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", lines[1])[1])
            assert ask(port)[0].status == 200
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=HANG)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == "Stopped.\n"
    assert errors == ""
