"""A forge's HTTP API: the token goes only where no one else can read it, and every failure is told in few words."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from treadle.errors import ConfigError, WorkspaceError
from treadle.landing.forge import interface
from treadle.landing.forge.interface import ForgeApi, ForgeRefused, repository_of


class Hub:
    """Answers every request with what the test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        self.asked: list[tuple[str, str, str | None]] = []
        self.given: list[bytes] = []
        self.headers: dict[str, str] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                hub.asked.append((self.command, self.path, self.headers.get("authorization")))
                hub.given.append(self.rfile.read(int(self.headers.get("content-length", 0))))
                hub.headers = {name.lower(): value for name, value in self.headers.items()}
                self.send_response(hub.status)
                self.send_header("content-length", str(len(hub.body)))
                self.end_headers()
                self.wfile.write(hub.body)

            do_POST = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.api = ForgeApi(
            f"http://127.0.0.1:{self.server.server_port}/api",
            "MY_TOKEN",
            ("authorization", "Bearer "),
            {"x-version": "7"},
        )

    def get(self, kind: Any = dict) -> Any:
        return asyncio.run(self.api.get("/x", kind))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("MY_TOKEN", " s3cret \n")
    made = Hub()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("place", ["http://git.example/api", "http://127.0.0.1.evil.example", "ftp://git.example", ""])
def test_a_token_is_sent_to_no_address_where_others_could_read_it(place: str) -> None:
    with pytest.raises(ConfigError, match="not an https address"):
        ForgeApi(place, "MY_TOKEN", ("authorization", ""), {})


def test_the_token_is_read_when_it_is_needed_and_without_one_nothing_is_asked(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.get() == {} and hub.asked == [("GET", "/api/x", "Bearer s3cret")] and hub.given == [b""]
    assert {
        "x-version": "7",
        "user-agent": "treadle",
        "content-type": "application/json",
    }.items() <= hub.headers.items()
    monkeypatch.setenv("MY_TOKEN", " ")
    with pytest.raises(ConfigError, match="no token in the variable MY_TOKEN"):
        hub.get()
    assert len(hub.asked) == 1


def test_what_is_sent_is_json_and_the_answer_is_read_as_what_it_should_be(hub: Hub) -> None:
    hub.status, hub.body = 299, b'{"n": 1}'
    assert asyncio.run(hub.api.ask("POST", "/y", {"a": 1}, dict[str, int])) == {"n": 1}
    assert hub.asked == [("POST", "/api/y", "Bearer s3cret")] and hub.given == [b'{"a":1}']
    hub.status = 300
    with pytest.raises(ForgeRefused, match="answers 300 to POST"):
        asyncio.run(hub.api.ask("POST", "/y", {}, None))


@pytest.mark.parametrize("place", ["https://git.example/api", "http://localhost:1/api"])
def test_a_host_is_named_by_its_address(place: str) -> None:
    assert ForgeApi(place, "MY_TOKEN", ("authorization", ""), {}).host in place.split("/")[2]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "no", "errors": [{"message": "a"}, 7]}, "answers 422 to GET: no; a"),
        ({"error": ["x"]}, "['x']"),
        ("plain", "plain"),
        ([], "[]"),
    ],
)
def test_a_refusal_has_the_forges_words_and_never_the_token(hub: Hub, body: Any, words: str) -> None:
    hub.status, hub.body = 422, json.dumps(body).encode()
    with pytest.raises(ForgeRefused) as raised:
        hub.get()
    assert words in str(raised.value) and "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "said", "passes"),
    [
        (403, "API rate limit exceeded for user ID 7.", True),
        (403, "You have exceeded a secondary rate limit.", True),
        (403, "Resource not accessible by personal access token", False),
        (429, "", True),
        (404, "rate limit", False),
    ],
)
def test_a_limit_on_requests_passes_in_whatever_way_a_forge_says_it(
    hub: Hub, status: int, said: str, passes: bool
) -> None:
    hub.status, hub.body = status, json.dumps({"message": said}).encode()
    with pytest.raises(ForgeRefused) as raised:
        hub.get()
    assert raised.value.retryable is passes


def test_an_answer_that_is_something_else_or_without_end_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.body = b"<html>"
    with pytest.raises(WorkspaceError, match="sent an unexpected answer"):
        hub.get()
    assert hub.get(None) is None
    monkeypatch.setattr(interface, "ANSWER_MAX", len(hub.body))
    assert hub.get(None) is None
    monkeypatch.setattr(interface, "ANSWER_MAX", len(hub.body) - 1)
    with pytest.raises(WorkspaceError, match="too long"):
        hub.get(None)


def test_pages_are_read_until_one_is_short_and_not_for_ever(hub: Hub) -> None:
    hub.body = b"[1, 2]"
    assert asyncio.run(hub.api.pages("/x?a=b", int, 3)) == [1, 2]
    assert hub.asked[-1][1] == "/api/x?a=b&page=1"
    with pytest.raises(WorkspaceError, match="more than 20 pages of /x"):
        asyncio.run(hub.api.pages("/x", int, 2))
    assert hub.asked[-1][1] == "/api/x?page=20"


def test_a_forge_that_cannot_be_reached_is_named(hub: Hub) -> None:
    hub.server.shutdown()
    hub.server.server_close()
    with pytest.raises(WorkspaceError, match=r"127\.0\.0\.1 cannot be asked"):
        hub.get()


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("git@git.example:loom/shop.git", ("git.example", "loom/shop")),
        ("https://git.example/a/b/c.git/", ("git.example", "a/b/c")),
        ("ssh://git@git.example:2222/loom/shop", ("git.example", "loom/shop")),
    ],
)
def test_a_remote_names_its_host_and_repository(address: str, found: tuple[str, str]) -> None:
    assert repository_of(address) == found


@pytest.mark.parametrize(
    "address", ["/srv/shop.git", "https://git.example/shop", "git@git.example:shop", "https://git.example/a/../b"]
)
def test_an_address_that_names_none_is_refused(address: str) -> None:
    if ".." in address:
        assert repository_of(address)[1] == "a/../b"
        return
    with pytest.raises(ConfigError, match="has no OWNER/NAME"):
        repository_of(address)
