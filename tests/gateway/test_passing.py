"""What goes through a gateway arrives as it would without one; only the key is another."""

import asyncio
import gzip
import logging
import os
from pathlib import Path
from typing import get_args

import pytest

from tests.gateway.wired import KEY, NONE, PATHS, TOKEN, Reports, ask, asking, before
from tests.waiting import until
from treadle.agent.providers.script import ErrorLine, Fault, Script, ScriptedReply, UsageLine
from treadle.gateway import server as gateways
from treadle.gateway.governor import AccountGovernor
from treadle.gateway.spending import Spending
from treadle.testing.server import ModelServer

USED = UsageLine(input=100, output=7, cache_read=20)
HELLO = ScriptedReply(text="Hello from the model, with ünïcode.", usage=USED, times="always")
NOTHING = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
FAULTS = [one for one in get_args(Fault) if one not in ("hang", "stall", "giant", "slow")]


def hello(**fields: object) -> Script:
    return Script(reply=(ScriptedReply(text="Hello", usage=USED, times="always", **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("family", PATHS)
async def test_each_family_passes_unchanged_and_is_counted(family: str, stream: bool, tmp_path: Path) -> None:
    body = asking(family, stream=stream)
    async with ModelServer(Script(reply=(HELLO,))) as server, ModelServer(Script(reply=(HELLO,))) as alone:
        async with before(server, tmp_path) as wiring:
            passed = await ask(wiring.url, PATHS[family], body)
            direct = await ask(alone.url, PATHS[family], body, key=KEY)
            used = wiring.reports.used
        assert [one.headers["x-api-key"] for one in server.requests] == [KEY]
    assert (passed.status, passed.body, passed.broken) == (direct.status, direct.body, False)
    assert [(one.model, one.input_tokens, one.output_tokens, one.cache_read_tokens) for one in used] == [
        ("m", 100, 7, 20)
    ]
    assert used[0].cost_usd == pytest.approx((100 * 1 + 7 * 10 + 20 * 0.1) / 1e6) and used[0].source == "provider"


@pytest.mark.parametrize(
    ("family", "fault"), [*(("anthropic", fault) for fault in FAULTS), ("chat", "cut"), ("responses", "cut")]
)
async def test_a_broken_reply_is_broken_in_the_same_way(family: str, fault: Fault, tmp_path: Path) -> None:
    body = asking(family, stream=True)
    script = Script(reply=(HELLO,))
    async with ModelServer(script, faults=[fault]) as server, ModelServer(script, faults=[fault]) as alone:
        async with before(server, tmp_path) as wiring:
            passed = await ask(wiring.url, PATHS[family], body)
            direct = await ask(alone.url, PATHS[family], body, key=KEY)
    assert (passed.status, passed.broken) == (direct.status, direct.broken)
    assert passed.body == direct.body or passed.broken and direct.body.startswith(passed.body)
    assert len(wiring.reports.used) <= 1


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n", True),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", False),
    ],
    ids=["bad chunking", "half a chunk", "a length", "until it closes"],
)
async def test_what_is_no_whole_reply_never_looks_like_one(answer: bytes, broken: bool, tmp_path: Path) -> None:
    async with _saying(answer) as url, before(url, tmp_path) as wiring:
        passed = await ask(wiring.url, "/v1/messages", asking("anthropic", stream=True))
    assert passed.broken is broken and (broken or passed.body == answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n"], ids=["closed", "no HTTP"])
async def test_a_service_without_an_answer_is_an_error_in_the_family_s_form(answer: bytes, tmp_path: Path) -> None:
    async with _saying(answer) as url, before(url, tmp_path) as wiring:
        passed = await ask(wiring.url, "/v1/messages", asking("anthropic", stream=True))
    assert passed.status == 502 and passed.body.startswith(b'{"type":"error","error":{"type":"api_error"')


async def test_a_packed_reply_stays_packed_and_is_counted(tmp_path: Path) -> None:
    whole = b'{"type":"message","id":"x","model":"m","usage":{"input_tokens":3,"output_tokens":4}}'
    packed = gzip.compress(whole)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    async with _saying(head % len(packed) + packed) as url, before(url, tmp_path) as wiring:
        passed = await ask(wiring.url, "/v1/messages", asking("anthropic", stream=False))
        assert (passed.headers["content-encoding"], passed.body) == ("gzip", packed)
        assert [(one.input_tokens, one.output_tokens) for one in wiring.reports.used] == [(3, 4)]


async def test_each_piece_of_a_reply_is_passed_on_before_the_next_comes(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await go.wait()
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(service, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening, before(url, tmp_path) as wiring, asyncio.timeout(60):
        reader, writer = await _sent(wiring.url, b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\n\r\n")
        assert (await reader.readuntil(b"first")).endswith(b"first")
        go.set()
        assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"second\r\n0\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("who", ["agent", "gateway", "service"])
async def test_whoever_leaves_in_mid_stream_the_others_are_left_and_it_counts_once(who: str, tmp_path: Path) -> None:
    """So that no one waits, and no one pays for what no one reads."""
    async with ModelServer(hello(), faults=["stall"]) as server, before(server, tmp_path) as wiring:
        body = asking("anthropic", stream=True)
        head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\ncontent-length: " + str(len(body)).encode()
        reader, writer = await _sent(wiring.url, head + b"\r\n\r\n" + body)
        async with asyncio.timeout(60):
            await reader.readuntil(b"message_start")
            for leaves in {"agent": [writer.close], "gateway": [wiring.gateway.close]}.get(who, ()):
                leaves()
            for serving in server._open if who == "service" else ():
                serving.cancel()
            await server.all_gone()
            if who != "agent":
                assert not (await reader.read()).endswith(b"0\r\n\r\n"), "half a reply does not look like a whole one"
        writer.close()
        await until(lambda: wiring.reports.used)
        (used,) = wiring.reports.used
        assert (used.input_tokens, used.source) == (100, "estimate")


async def test_a_slow_agent_slows_the_service_and_nothing_piles_up(tmp_path: Path) -> None:
    sent = 0

    async def service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while sent < 64 << 20:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(service, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening, before(url, tmp_path) as wiring, asyncio.timeout(60):
        reader, writer = await _sent(wiring.url, b"GET /v1/x HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        before_rest = -1
        while before_rest != sent:  # it stands when nothing more is taken
            before_rest = sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert sent < 32 << 20
        writer.close()


@pytest.mark.parametrize(
    ("line", "key", "status"),
    [
        ("POST /v1/messages", "another-key", 401),
        ("POST /v1/messages", TOKEN[:-1], 401),
        ("POST /v1/messages", KEY, 401),
        ("POST /../secret", TOKEN, 404),
        ("POST /v1/%2e%2e/secret", TOKEN, 404),
        ("POST /v1/messages#/models/x", TOKEN, 404),
        (f"POST /v1/{TOKEN}/messages?x={TOKEN}", "", 401),
        ("HEAD /", "", 401),
        ("HEAD /../secret", TOKEN, 404),
    ],
    ids=lambda value: str(value).replace(TOKEN[:-1], "token"),  # the same in every worker of a parallel run
)
async def test_what_has_no_token_or_leads_elsewhere_is_refused(
    line: str, key: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring:
        body = asking("anthropic", stream=False)
        head = f"{line} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
        reader, writer = await _sent(wiring.url, head.encode() + body)
        assert (await reader.readline()).split()[1] == str(status).encode() and server.requests == []
        writer.write_eof()
        assert (await reader.read()).endswith(b"\r\n\r\n") is line.startswith("HEAD ")
        writer.close()
    assert not caplog.records


async def test_the_agent_sees_no_more_of_the_base_url_than_its_version(tmp_path: Path) -> None:
    """Some have a key in it."""
    async with ModelServer(hello()) as server, before(f"{server.url}/{KEY}/v1", tmp_path) as wiring:
        assert KEY not in wiring.url and wiring.url.endswith("/v1")
        assert (await ask(wiring.url.removesuffix("/v1"), "/v2/models")).status == 404 and server.requests == []
        assert (await ask(wiring.url, "/models")).status == 200
        assert [one.path for one in server.requests] == [f"/{KEY}/v1/models"]


async def test_a_websocket_is_declined_so_that_the_client_falls_back(tmp_path: Path) -> None:
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring:
        assert (await ask(wiring.url, "/v1/responses", connection="Upgrade", upgrade="websocket")).status == 426


async def test_a_request_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "LARGEST_REQUEST", 1000)
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring:
        assert (await ask(wiring.url, "/v1/messages", b"x" * 2000)).status == 413 and server.requests == []
        assert (await ask(wiring.url, "/v1/messages", b"{}", large="x" * 200_000)).broken


async def test_a_path_that_is_not_known_passes_and_is_reported_as_unmetered(tmp_path: Path) -> None:
    async with _saying(NOTHING) as url, before(url, tmp_path) as wiring:
        for path in ("/v1/files", "/v1/files", "/v1/messages/count_tokens"):
            assert (await ask(wiring.url, path, b"{}")).body == b"{}"
        assert [code for code, _ in wiring.reports.notes] == ["unmetered"] and wiring.reports.used == []


@pytest.mark.parametrize("family", ["chat", "responses"])
async def test_a_reply_that_breaks_off_before_its_counts_is_estimated(family: str, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
    async with _saying(head + b"data: " + b"x" * 794) as url, before(url, tmp_path) as wiring:
        assert (await ask(wiring.url, PATHS[family], asking(family, stream=True, said="word " * 200))).broken
        (used,) = wiring.reports.used
    assert (used.source, used.output_tokens) == ("estimate", 200) and 250 < used.input_tokens < 300


async def test_the_last_event_counts_without_a_blank_line_after_it(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    last = b'data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}'
    async with _saying(head + last) as url, before(url, tmp_path) as wiring:
        await ask(wiring.url, PATHS["chat"], asking("chat", stream=True))
        assert [(one.input_tokens, one.output_tokens) for one in wiring.reports.used] == [(3, 4)]


@pytest.mark.parametrize(
    ("body", "fields"),
    [(b'{"a":' + b"[" * 100_000, {}), (b'{"a":' + b"9" * 5000 + b"}", {}), (b"{}", {"x-name": "J\xfcrgen"})],
    ids=["deep", "a large number", "a header that is not ASCII"],
)
async def test_what_we_cannot_read_passes(body: bytes, fields: dict[str, str], tmp_path: Path) -> None:
    async with _saying(NOTHING) as url, before(url, tmp_path) as wiring:
        assert (await ask(wiring.url, "/v1/messages", body, **fields)).status == 200


async def test_what_fails_here_is_an_answer_and_not_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring:
        monkeypatch.setattr(wiring.gateway.spending, "_costs", lambda usage: 1 / 0)
        assert (await ask(wiring.url, "/v1/messages", asking("anthropic", stream=True))).broken
        monkeypatch.setattr(wiring.gateway.spending, "limits", None)
        failed = await ask(wiring.url, "/v1/messages", asking("anthropic", stream=True))
    assert failed.status == 502 and b"AttributeError" in failed.body


async def test_connections_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "MOST_CONNECTIONS", 1)
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring:
        reader, writer = await _sent(wiring.url, b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\n\r\n")
        await reader.readline()
        assert (await ask(wiring.url, "/v1/models")).status == 503
        writer.close()


async def test_the_body_of_a_stranger_is_not_read(tmp_path: Path) -> None:
    async with ModelServer(hello()) as server, before(server, tmp_path) as wiring, asyncio.timeout(60):
        head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: no\r\ncontent-length: 60000000\r\n\r\n"
        reader, writer = await _sent(wiring.url, head)
        assert b" 401 " in await reader.readline()
        writer.close()


async def test_certificates_that_are_not_there_are_stated(tmp_path: Path) -> None:
    upstream = gateways.Upstream(base_url="https://127.0.0.1:9", secrets={TOKEN: KEY}, authorities="/none.pem")
    governor, reports = AccountGovernor("service", KEY, place=str(tmp_path)), Reports()
    gateway = gateways.ModelGateway(upstream, Spending(NONE, lambda _: None), governor, apart=False)
    gateway.report_to(reports)
    gateway.close()
    assert [code for code, _ in reports.notes] == ["gateway"] and "/none.pem" in reports.notes[0][1]


async def test_a_reply_without_counts_is_reported_as_unmetered(tmp_path: Path) -> None:
    async with _saying(NOTHING) as url, before(url, tmp_path) as wiring:
        await ask(wiring.url, "/v1/chat/completions", asking("chat", stream=False))
        assert wiring.reports.notes == [("unmetered", "replies of m have no token counts: not metered")]


async def test_no_key_is_in_a_log_or_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A service may repeat the key that it refuses."""
    refused = ScriptedReply(error=ErrorLine(status=401, message=f"the key {KEY} is wrong"), times="always")
    with caplog.at_level(logging.DEBUG):
        async with ModelServer(Script(reply=(refused,))) as server, before(server, tmp_path) as wiring:
            passed = await ask(wiring.url, f"/v1/messages?key={TOKEN}", asking("anthropic", stream=True))
        async with before(f"http://127.0.0.1:9/{KEY}", tmp_path) as wiring:
            lost = await ask(wiring.url, "/v1/messages", asking("anthropic", stream=True))
    assert passed.status == 401 and TOKEN.encode() in passed.body and lost.status == 502
    assert KEY.encode() not in passed.body + lost.body + str(passed.headers).encode() and KEY not in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


async def test_a_key_stands_only_where_a_service_takes_one(tmp_path: Path) -> None:
    """So that nothing can be asked of a service with which it repeats the key."""
    asked: list[bytes] = []

    async def service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: /?key=%s\r\ncontent-length: 0\r\n\r\n" % KEY.encode())
        writer.close()

    async with await asyncio.start_server(service, "127.0.0.1", 0) as listening:
        async with before(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", tmp_path) as wiring:
            fields = {"origin": TOKEN, "x-request-id": TOKEN, "authorization": f"Bearer {TOKEN}"}
            passed = await ask(wiring.url, f"/v1/models/{TOKEN}?a={TOKEN}&key={TOKEN}", **fields)
    head = asked[0].decode().lower()
    assert f"get /v1/models/{TOKEN}?a={TOKEN}&key={KEY} " in head and head.count(KEY) == 3
    assert f"authorization: bearer {KEY}" in head and f"x-api-key: {KEY}" in head
    assert passed.headers["location"] == f"/?key={TOKEN}"


async def test_apart_it_is_a_socket_that_only_its_user_can_open(tmp_path: Path) -> None:
    async with ModelServer(hello()) as server, before(server, tmp_path, apart=True) as wiring:
        (grant,) = wiring.gateway.ports
        assert os.stat(grant.socket).st_mode & 0o777 == 0o600
    assert not os.path.exists(grant.socket)


async def _sent(url: str, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace(b"%s", TOKEN.encode()))
    return reader, writer


class _saying:
    """A service that answers every request with these bytes, and closes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.read(65536)
        writer.write(self._answer)
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
