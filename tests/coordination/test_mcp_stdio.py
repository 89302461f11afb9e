"""The server as a process on pipes: both framings, hostile input, and the official client."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, Run
from treadle.coordination.claims import Claims

SERVER = str(BIN / "heimdall-ledger-mcp")


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False).encode() + b"\n"


def framed(**fields: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False).encode()
    return b"content-LENGTH: %d\r\nContent-Type: application/json\r\n\r\n%b" % (len(body), body)


def answers(heimdall: Run, data: bytes) -> list[Any]:
    done = heimdall("ledger-mcp", stdin=data)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(text) for text in done.stdout.splitlines()]


def test_the_published_request_line_is_accepted_exactly(heimdall: Run) -> None:
    (answer,) = answers(
        heimdall,
        b'{"jsonrpc":"2.0","id":1,"method":"initialize",'
        b'"params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"cursor"}}}\n',
    )
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    assert answer["result"]["capabilities"] == {"tools": {"listChanged": False}}
    assert answer["result"]["serverInfo"] == {"name": "heimdall-ledger-mcp", "version": "1.0.0"}


def test_both_framings_are_counted_in_bytes_and_may_be_mixed(heimdall: Run) -> None:
    claim = {"name": "append_decision", "arguments": {"title": "größer → größer", "body": "日本語 🚀"}}
    data = (
        framed(id=1, method="tools/call", params=claim)
        + line(id=2, method="ping")
        + framed(id=3, method="tools/call", params={"name": "read_claims"})
        + b"\n\r\n"
        + line(id=4, method="ping")[:-1]  # the last one without its newline
    )
    found = answers(heimdall, data)
    assert [answer["id"] for answer in found] == [1, 2, 3, 4]
    assert found[0]["result"]["structuredContent"]["title"] == "größer → größer"


def test_garbage_costs_its_own_line_only(heimdall: Run) -> None:
    data = (
        b"nonsense\n\xff\xfe\n[]\n1\n{}\n"
        + line(method="tools/unknown")
        + line(id=1, method="tools/unknown")
        + b"[" * 20_000
        + b"\n"
        + line(id=2, method="ping")
    )
    found = answers(heimdall, data)
    codes = [answer.get("error", {}).get("code") for answer in found]
    assert codes == [-32700, -32700, -32600, -32600, -32600, -32601, -32700, None]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"1" * 5000])
def test_an_id_that_is_no_number_of_json_costs_its_own_line_only(heimdall: Run, number: bytes) -> None:
    bad = b'{"jsonrpc":"2.0","id":' + number + b',"method":"ping"}\n'
    found = answers(heimdall, bad + line(id=2, method="ping"))
    assert found[-1] == {"jsonrpc": "2.0", "id": 2, "result": {}} and len(found) == 2


def test_the_round_trip_of_the_protocol_document(heimdall: Run, project: Path) -> None:
    found = answers(
        heimdall,
        line(id=1, method="initialize", params={"clientInfo": {"name": "cursor"}})
        + line(
            id=3,
            method="tools/call",
            params={"name": "make_claim", "arguments": {"surfaces": ["src/a/**"], "task": "T-9"}},
        ),
    )
    haid = found[1]["result"]["structuredContent"]["haid"]
    assert haid.endswith("/cursor")
    listed = heimdall("claim", "list").stdout
    assert haid in listed and f"T-9 (via heimdall-ledger-mcp:{haid})" in listed and "src/a/**" in listed


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


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
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


def test_a_connected_client_is_told_that_what_it_waited_for_is_free(project: Path, claims: Claims) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": project}
    with subprocess.Popen([SERVER], **pipes) as server:  # type: ignore[call-overload]
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "cursor"}}
        want = {"name": "make_claim", "arguments": {"surfaces": ["src/a/b.ts"], "task": "T-2"}}
        server.stdin.write(line(id=1, method="initialize", params=hello) + line(id=2, method="tools/call", params=want))
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["capabilities"]["resources"]["subscribe"] is True
        assert json.loads(server.stdout.readline())["result"]["isError"] is True
        claims.release("haid:bob.box-0002")
        told = json.loads(server.stdout.readline())
        assert told["method"] == "notifications/message" and told["params"]["data"]["free"] == ["src/a/b.ts"]
        server.communicate(timeout=60)
