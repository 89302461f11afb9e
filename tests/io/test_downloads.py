"""Large downloads: continued after a break, accepted only with the right hash."""

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from treadle.errors import NotFound, StorageError
from treadle.io.downloads import append, fetch, finish, partial, size_of

DATA = bytes(range(256)) * 4096
HASH = hashlib.sha256(DATA).hexdigest()


class Site:
    """A real HTTP server with one file; it may break off, or not support ranges."""

    def __init__(self) -> None:
        self.breaks: list[int] = []
        """After how many bytes each of the next answers breaks off."""
        self.ranges = self.length = True
        self.asked: list[str] = []
        self.connections = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                site.connections += 1
                super().setup()

            def do_GET(self) -> None:
                site.asked.append(self.headers.get("range", ""))
                assert self.headers["accept-encoding"] == "identity"
                if self.path in ("/moved", "/round"):
                    self.send_response(302)
                    self.send_header("location", "/m.gguf" if self.path == "/moved" else "/round")
                    return self.end_headers()
                if self.path != "/m.gguf":
                    return self.send_error(404)
                start = int(site.asked[-1][6:-1]) if site.asked[-1] and site.ranges else 0
                if start >= len(DATA):
                    return self.send_error(416)
                self.send_response(206 if start else 200)
                if site.length:
                    self.send_header("content-length", str(len(DATA) - start))
                self.end_headers()
                cut = site.breaks.pop(0) if site.breaks else len(DATA)
                self.wfile.write(DATA[start : start + cut])
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/m.gguf"


@contextmanager
def serving() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()
        thread.join()


async def test_a_file_comes_whole_and_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with serving() as site:
        assert await fetch(site.url, str(tmp_path / "m"), HASH, lambda *one: told.append(one)) == len(DATA)
    assert (tmp_path / "m").read_bytes() == DATA and told[-1] == (len(DATA), len(DATA))
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


async def test_a_broken_connection_is_gone_on_with_where_it_broke(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with serving() as site:
        site.breaks = [300_000, 0, 0, 100_000]
        await fetch(site.url.replace("m.gguf", "moved"), str(tmp_path / "m"), HASH, lambda *one: told.append(one))
    asked = site.asked[1::2]
    assert (tmp_path / "m").read_bytes() == DATA and len(asked) == 5
    assert asked[0] == "" and all(one.startswith("bytes=") for one in asked[1:])
    assert {total for _, total in told} == {len(DATA)} and told[-1][0] == len(DATA)


async def test_after_a_few_breaks_it_is_given_up_and_what_has_arrived_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with serving() as site, pytest.raises(StorageError, match=f"{site.url} could not be fetched: .") as caught:
        site.breaks = [1000] * 6
        await fetch(site.url, path, HASH, lambda *_: None)
    assert len(site.asked) == 5 and size_of(partial(path)) > 0 and not os.path.exists(path)
    assert caught.value.hint == "what has arrived is kept: the same command continues from there"
    with serving() as site, pytest.raises(StorageError, match="could not be fetched"):
        await fetch(site.url.replace("http:", "https:"), str(tmp_path / "x"), HASH, lambda *_: None)
    assert site.connections == 1, "where there is no such server it is not tried again"


async def test_redirects_that_do_not_end_are_given_up(tmp_path: Path) -> None:
    with serving() as site, pytest.raises(StorageError, match="round redirects more than 10 times"):
        await fetch(site.url.replace("m.gguf", "round"), str(tmp_path / "m"), HASH, lambda *_: None)
    assert len(site.asked) == 11 and list(tmp_path.iterdir()) == []


async def test_a_later_process_goes_on_too_and_a_server_without_ranges_begins_again(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    for ranges in (True, False):
        append(path, [DATA[:1000]], at=0, progress=lambda _: None)
        with serving() as site:
            site.ranges = ranges
            await fetch(site.url, path, HASH, lambda *_: None)
        assert (tmp_path / "m").read_bytes() == DATA and site.asked == ["bytes=1000-"]


async def test_what_was_there_already_is_only_checked(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    append(path, [DATA], at=0, progress=lambda _: None)
    with serving() as site:
        await fetch(site.url, path, HASH, lambda *_: None)
    assert (tmp_path / "m").read_bytes() == DATA


async def test_a_wrong_hash_leaves_nothing_behind(tmp_path: Path) -> None:
    why = f"what was fetched for m is not what was pinned: its SHA-256 is {HASH}, not {'0' * 64}"
    with serving() as site, pytest.raises(StorageError, match=why):
        await fetch(site.url, str(tmp_path / "m"), "0" * 64, lambda *_: None)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_not_there_and_a_server_that_is_not_are_said(tmp_path: Path) -> None:
    with serving() as site, pytest.raises(NotFound, match="404"):
        await fetch(site.url.replace("m.gguf", "x"), str(tmp_path / "m"), HASH, lambda *_: None)
    with pytest.raises(StorageError, match=r"cannot finish .*m\.partial"):
        finish(str(tmp_path / "m"), HASH)
    with pytest.raises(StorageError, match=r"cannot write .*m\.partial"):
        append(str(tmp_path / "none" / "m"), [], at=0, progress=lambda _: None)
