"""The server over Streamable HTTP: real sockets, and the official client."""

import http.client
import json
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, Run
from treadle.coordination import mcp_http
from treadle.coordination.mcp import Server
from treadle.coordination.mcp_http import HttpListener
from treadle.coordination.planning import Planning

TOKEN = "secret-token"


@pytest.fixture
def listener(project: Path) -> Iterator[HttpListener]:
    planning = Planning(project=str(project))
    with HttpListener(lambda: Server(planning), TOKEN) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def send(
    listener: HttpListener, body: Any, method: str = "POST", path: str = "/mcp", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(*listener.server_address[:2], timeout=60)
    sent = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, sent)
    answer = connection.getresponse()
    found = (answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return found


def call(method: str, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def begin(listener: HttpListener, client: str = "cursor") -> str:
    status, headers, _ = send(listener, call("initialize", clientInfo={"name": client}))
    assert status == 200
    return headers["Mcp-Session-Id"]


def test_a_session_begins_with_initialize_and_ends_with_delete(listener: HttpListener) -> None:
    session = begin(listener)
    status, headers, body = send(listener, call("tools/list"), Mcp_Session_Id=session)
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert len(json.loads(body)["result"]["tools"]) == 6
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert send(listener, note, Mcp_Session_Id=session)[0] == 202
    assert send(listener, b"", "DELETE", Mcp_Session_Id=session)[0] == 204
    assert send(listener, call("ping"), Mcp_Session_Id=session)[0] == 404
    assert send(listener, b"", "DELETE", Mcp_Session_Id=session)[0] == 404


def test_two_sessions_of_one_name_are_two_identities_until_one_ends(listener: HttpListener) -> None:
    def who(session: str) -> str:
        body = send(listener, call("tools/call", name="read_claims"), Mcp_Session_Id=session)[2]
        return str(json.loads(body)["result"]["structuredContent"]["haid"])

    one, two = begin(listener), begin(listener)
    assert who(one).endswith("/cursor") and who(two).endswith("/cursor-2")
    send(listener, b"", "DELETE", Mcp_Session_Id=one)
    assert who(begin(listener)).endswith("/cursor")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": f"bearer {TOKEN}"}, 200),
        ({"Authorization": f"BEARER {TOKEN}"}, 200),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer schlüssel".encode().decode("latin-1")}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
def test_only_this_machine_with_the_token(listener: HttpListener, headers: dict[str, str], status: int) -> None:
    assert send(listener, call("initialize"), **headers)[0] == status


@pytest.mark.parametrize(("token", "status"), [("wrong", b"401"), (TOKEN, b"")])
def test_nobody_without_the_token_makes_it_read_a_body(listener: HttpListener, token: str, status: bytes) -> None:
    """A body is announced but never sent. Without the token the answer comes anyway; with it, the server waits."""
    head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
    with socket.create_connection(listener.server_address[:2], timeout=60) as connection:
        connection.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        if status:
            assert connection.recv(4096).split()[1] == status
        else:
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_without_the_token_there_is_one_answer_and_it_is_no(listener: HttpListener, method: str) -> None:
    head = f"{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection(listener.server_address[:2], timeout=20) as connection:
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.split()[1] == b"401"


def test_a_client_that_resets_the_connection_costs_nothing_and_is_not_a_traceback(
    listener: HttpListener, capfd: pytest.CaptureFixture[str]
) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 90\r\n\r\nx"
    for _ in range(3):
        connection = socket.create_connection(listener.server_address[:2], timeout=60)
        connection.sendall(head.encode())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
        connection.close()
    assert begin(listener)
    assert "Traceback" not in capfd.readouterr().err


def test_what_it_does_not_do_is_said_with_its_status(listener: HttpListener) -> None:
    assert send(listener, b"", "GET")[0] == 405
    assert send(listener, call("ping"))[0] == 400
    assert send(listener, call("ping"), path="/other")[0] == 404
    assert send(listener, b"not json")[0] == 400
    session = begin(listener)
    status, _, body = send(listener, b"not json", Mcp_Session_Id=session)
    assert status == 200 and json.loads(body)["error"]["code"] == -32700
    assert send(listener, b"", Content_Length="99999999999")[0] == 413
    assert send(listener, b"", Content_Length="many")[0] == 411
    assert send(listener, b"", Content_Length="9" * 5000)[0] == 411
    assert send(listener, b"0\r\n\r\n", Transfer_Encoding="chunked")[0] == 411


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_connects_over_http(project: Path, mode: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    server = subprocess.Popen(
        [str(BIN / "heimdall-ledger-mcp"), "--http", "--extended"], stdout=subprocess.PIPE, text=True, cwd=project
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        token = server.stdout.readline().split()[-1]
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http_client:
            async with Client(streamable_http_client(url, http_client=http_client), mode=mode) as client:
                assert len((await client.list_tools()).tools) == 14
                made = await client.call_tool("make_claim", {"surfaces": ["src/a/**"], "task": "T-1"})
                assert not made.is_error
    finally:
        server.terminate()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


def test_what_is_wrong_is_said_at_the_start(heimdall: Run, listener: HttpListener) -> None:
    port = str(listener.server_address[1])
    taken = heimdall("ledger-mcp", "--http", "--port", port)
    assert taken.returncode == 2 and f"cannot listen on port {port}" in taken.stderr
    assert heimdall("ledger-mcp", "--http", "--port", "many").returncode == 2
    assert heimdall("ledger-mcp", "--http", HEIMDALL_HAID="nobody").returncode == 2


def test_who_is_silent_for_long_or_longest_is_dropped_and_its_name_is_free(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(mcp_http.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(mcp_http, "MAX_SESSIONS", 3)
    planning = Planning(project=str(project))
    sessions = mcp_http.Sessions(lambda: Server(planning))

    def begun() -> str:
        name = sessions.begin()
        found = sessions.find(name)
        assert found is not None
        found[0].handle("initialize", {"clientInfo": {"name": "cursor"}})
        return name

    def known() -> list[str]:
        return [found[0]._own().partition("/")[2] for name in names if (found := sessions._open.get(name))]

    names = [begun() for _ in range(3)]
    assert known() == ["cursor", "cursor-2", "cursor-3"]
    now[0] = 1.0
    assert sessions.find(names[0]) is not None  # it was heard from again
    names.append(begun())
    assert known() == ["cursor", "cursor-3", "cursor-2"], "the second was silent longest, and its name was free"
    now[0] = mcp_http.SESSION_SECONDS
    monkeypatch.setattr(mcp_http, "MAX_SESSIONS", 9)
    names.append(begun())
    assert len(known()) == 4, "just as long is not too long"
    now[0] += 1.0
    names.append(begun())
    assert len(known()) == 4 and names[2] not in sessions._open
    sessions.end_all()
    assert known() == [] and Server(planning).bindings.haid("cursor").endswith("/cursor")


def test_a_connection_that_is_refused_is_closed_and_one_that_is_served_goes_on(
    listener: HttpListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps(call("ping")).encode()
    monkeypatch.setattr(mcp_http, "BODY_CAP", len(body))
    session, address = listener.sessions.begin(), listener.server_address[:2]
    head = f"POST /mcp HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer {TOKEN}\r\nMcp-Session-Id: {session}\r\n"
    small, large = (f"{head}Content-Length: {len(body) + more}\r\n\r\n".encode() for more in (0, 1))
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall((small + body) * 2 + large)
        said = b"".join(iter(lambda: connection.recv(4096), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"200", b"413"]
    assert b"Mcp-Session-Id" not in said and said.endswith(b"at most 16 MiB\n")
