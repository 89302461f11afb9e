"""The server on pipes, in this process and as one of its own: both framings, hostile input, and the official client."""

import json
import os
import select
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, Run
from treadle.coordination import mcp
from treadle.coordination.mcp import Server
from treadle.coordination.planning import Planning

SERVER = str(BIN / "heimdall-ledger-mcp")
Answers = Callable[[bytes], list[Any]]


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False).encode() + b"\n"


def framed(**fields: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False).encode()
    return b"content-LENGTH: %d\r\nContent-Type: application/json\r\n\r\n%b" % (len(body), body)


def spoken(server: Server, data: bytes, tmp_path: Path) -> list[Any]:
    """What a server says to all of this, in this process."""
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        mcp.serve(server, source.fileno(), sink.fileno())
    return [json.loads(text) for text in (tmp_path / "out").read_bytes().splitlines()]


@pytest.fixture
def answers(project: Path, tmp_path: Path) -> Answers:
    return lambda data: spoken(Server(Planning(project=str(project))), data, tmp_path)


def test_the_published_request_line_is_accepted_exactly(answers: Answers) -> None:
    (answer,) = answers(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize",'
        b'"params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"cursor"}}}\n',
    )
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    assert answer["result"]["capabilities"] == {"tools": {"listChanged": False}}
    assert answer["result"]["serverInfo"] == {"name": "heimdall-ledger-mcp", "version": "1.0.0"}


def test_both_framings_are_counted_in_bytes_and_may_be_mixed(answers: Answers) -> None:
    claim = {"name": "append_decision", "arguments": {"title": "größer → größer", "body": "日本語 🚀"}}
    data = (
        framed(id=1, method="tools/call", params=claim)
        + line(id=2, method="ping")
        + framed(id=3, method="tools/call", params={"name": "read_claims"})
        + b"\n\r\n"
        + line(id=4, method="ping")[:-1]  # the last one without its newline
    )
    found = answers(data)
    assert [answer["id"] for answer in found] == [1, 2, 3, 4]
    assert found[0]["result"]["structuredContent"]["title"] == "größer → größer"


def test_garbage_costs_its_own_line_only(answers: Answers) -> None:
    data = (
        b"nonsense\n\xff\xfe\n[]\n1\n{}\n"
        + line(method="tools/unknown")
        + line(id=1, method="tools/unknown")
        + b"[" * 20_000
        + b"\n"
        + line(id=2, method="ping")
    )
    found = answers(data)
    codes = [answer.get("error", {}).get("code") for answer in found]
    assert codes == [-32700, -32700, -32600, -32600, -32600, -32601, -32700, None]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"1" * 5000])
def test_an_id_that_is_no_number_of_json_costs_its_own_line_only(answers: Answers, number: bytes) -> None:
    bad = b'{"jsonrpc":"2.0","id":' + number + b',"method":"ping"}\n'
    found = answers(bad + line(id=2, method="ping"))
    assert found[-1] == {"jsonrpc": "2.0", "id": 2, "result": {}} and len(found) == 2


def test_it_serves_the_project_it_is_told_from_any_directory(heimdall: Run, project: Path, tmp_path: Path) -> None:
    call = {"name": "make_claim", "arguments": {"surfaces": ["x"], "task": "T"}}
    heimdall("ledger-mcp", "--project", str(project), cwd=tmp_path, stdin=line(id=1, method="tools/call", params=call))
    assert heimdall("claim", "list").stdout.startswith("ACTIVE CLAIMS (1)")
    assert heimdall("ledger-mcp", "--project", str(tmp_path / "none")).returncode == 2


def test_a_client_that_goes_away_while_it_is_answered_ends_the_server(project: Path) -> None:
    server = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None and server.stderr is not None
    server.stdout.close()
    server.stdin.write(line(id=1, method="ping"))
    server.stdin.close()
    assert server.wait(timeout=60) == 141
    assert server.stderr.read() == b""
    server.stderr.close()


@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", "2026-07-28"), pytest.param("legacy", "2025-11-25", marks=pytest.mark.slow)]
)
async def test_the_official_client_connects_lists_and_calls(project: Path, mode: str, revision: str) -> None:
    from mcp import Client, StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=SERVER, args=["--extended"], env=dict(os.environ), cwd=str(project))
    async with Client(stdio_client(parameters), mode=mode) as client:  # type: ignore[arg-type]
        assert client.protocol_version == revision
        listed = await client.list_tools()
        assert len(listed.tools) == 14
        made = await client.call_tool("make_claim", {"surfaces": ["src/a/**"], "task": "T-1"})
        assert not made.is_error and made.structured_content is not None
        assert made.structured_content["haid"].startswith("haid:ann.")
        async with Client(stdio_client(parameters), mode=mode) as second:  # type: ignore[arg-type]
            refused = await second.call_tool("make_claim", {"surfaces": ["src/a/b.ts"], "task": "T-2"})
            assert refused.is_error
        released = await client.call_tool("release_claim", {})
        assert released.structured_content is not None and released.structured_content["released"] is True


class Told(Server):
    """Says when it was told that its client is still connected, and what it waited for."""

    def __init__(self, planning: Planning) -> None:
        super().__init__(planning)
        self.renewed = threading.Event()

    def renew(self) -> None:
        super().renew()
        self.renewed.set()


@pytest.fixture
def connected(project: Path) -> Iterator[tuple[Told, Any, Any]]:
    """A server on two pipes, in a thread, and the client's ends of them."""
    (source, there), (back, sink) = os.pipe(), os.pipe()
    server = Told(Planning(project=str(project)))
    with os.fdopen(there, "wb", buffering=0) as ask, os.fdopen(back, "rb", buffering=0) as answer:
        thread = threading.Thread(target=mcp.serve, args=(server, source, sink))
        thread.start()
        yield server, ask, answer
        ask.close()
        thread.join(60)
    os.close(source)
    os.close(sink)


def answered(answer: Any) -> Any:
    assert select.select([answer], [], [], 20)[0], "nothing was said"
    return json.loads(answer.readline())


def test_a_client_that_waits_for_nothing_is_only_renewed(
    connected: tuple[Told, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ask, answer = connected
    monkeypatch.setattr(mcp, "RENEW_SECONDS", 0.01)
    ask.write(line(id=1, method="ping"))
    assert answered(answer)["id"] == 1 and server.renewed.wait(20)


def test_at_the_end_of_input_its_name_is_free(project: Path, tmp_path: Path) -> None:
    servers = [Server(Planning(project=str(project))) for _ in range(2)]
    hello = line(id=1, method="initialize", params={"clientInfo": {"name": "cursor"}})
    asked = hello + line(id=2, method="tools/call", params={"name": "read_claims"})
    said = [spoken(server, asked, tmp_path)[1]["result"]["structuredContent"]["haid"] for server in servers]
    assert [haid.partition("/")[2] for haid in said] == ["cursor", "cursor"]
