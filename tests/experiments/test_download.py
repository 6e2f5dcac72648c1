"""Files from a source: whole and right, or not at all, with words that help."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gumdrop_experiments.data.download import DownloadError, RemoteFile, fetch, sha256_of
from gumdrop_experiments.harness.settings import RunOptions, data_folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass


@pytest.fixture
def site(tmp_path):
    """A folder, and the address at which a server on this machine gives its files."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_file_is_fetched_once(site, tmp_path) -> None:
    folder, address = site
    (folder / "a.bin").write_bytes(bytes(range(256)) * 1000)
    file, notes = RemoteFile("a.bin", (address + "a.bin",), sha256_of(folder / "a.bin")), []
    fetch([file], tmp_path / "cache", notify=notes.append)
    assert (tmp_path / "cache" / "a.bin").read_bytes() == (folder / "a.bin").read_bytes()
    assert notes == [f"a.bin <- {address}a.bin"]
    (folder / "a.bin").unlink()
    fetch([file], tmp_path / "cache", notify=notes.append)
    assert len(notes) == 1


def test_the_next_source_stands_in(site, tmp_path) -> None:
    folder, address = site
    (folder / "wrong").write_text("a page that says sorry")
    (folder / "right").write_text("the file")
    urls = (address + "absent", address + "wrong", address + "right")
    fetch([RemoteFile("f", urls, sha256_of(folder / "right"))], tmp_path / "cache", notify=lambda note: None)
    assert (tmp_path / "cache" / "f").read_text() == "the file"


def test_what_cannot_be_had_leaves_nothing_and_says_why(site, tmp_path) -> None:
    folder, address = site
    (folder / "wrong").write_text("a page that says sorry")
    urls = (address + "absent", address + "wrong", "http://127.0.0.1:9/closed", (tmp_path / "no.txt").as_uri())
    with pytest.raises(DownloadError) as caught:
        fetch([RemoteFile("f", urls, "0" * 64)], tmp_path / "cache", notify=lambda note: None)
    said = str(caught.value)
    for words in ("f could not be downloaded", "File not found", "another file than it should be", "refused", "--data"):
        assert words in said
    assert not (tmp_path / "cache").exists()


def test_a_growing_record_has_no_checksum(site, tmp_path) -> None:
    folder, address = site
    (folder / "record").write_text("1958")
    fetch([RemoteFile("record", (address + "record",), None)], tmp_path, notify=lambda note: None)
    assert (tmp_path / "record").read_text() == "1958"


def test_an_experiment_fills_the_cache_unless_it_was_given_a_folder(site, tmp_path, monkeypatch) -> None:
    folder, address = site
    (folder / "a.txt").write_text("data")
    sources = [RemoteFile("a.txt", (address + "a.txt",), sha256_of(folder / "a.txt"))]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = data_folder(RunOptions(), "letters", sources=sources, files=["a.txt"])
    assert found == tmp_path / "cache" / "gumdrop" / "letters"
    assert (found / "a.txt").read_text() == "data"
    with pytest.raises(FileNotFoundError, match="has no folder 'letters'"):
        data_folder(RunOptions(data=tmp_path / "mine"), "letters", sources=sources)
