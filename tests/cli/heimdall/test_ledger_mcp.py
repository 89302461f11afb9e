"""`heimdall-ledger-mcp`: who may ask it over HTTP, and what it refuses before it listens."""

import http.client
import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.coordination.conftest import BIN, Run, here

ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def test_a_port_that_is_taken_is_said_at_once(project: Path) -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # if another program has it, it is taken too
            taken.bind(("127.0.0.1", 65535))
            taken.listen()
        done = here("ledger-mcp", "--http", "--port", "65535", cwd=project)
    assert done.returncode == 2 and "cannot listen on port 65535: " in done.stderr
    assert "choose another --port" in done.stderr


def test_it_speaks_on_its_streams_and_ends_with_them(heimdall: Run) -> None:
    done = heimdall("ledger-mcp", stdin=json.dumps(ASK) + "\n")
    (answer,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answer["result"]["tools"]) == 6
    more = json.loads(heimdall("ledger-mcp", "--extended", stdin=json.dumps(ASK) + "\n").stdout)
    assert len(more["result"]["tools"]) > 6


def test_over_http_only_who_has_the_token_is_answered(project: Path) -> None:
    env = {**os.environ, "HEIMDALL_MCP_TOKEN": "s3cret"}
    argv = [str(BIN / "heimdall-ledger-mcp"), "--http"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=project, env=env) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            assert url.startswith("http://127.0.0.1:") and server.stdout.readline() == "token s3cret\n"
            place, _, path = url.removeprefix("http://").partition("/")
            for token, status in (("Bearer s3cret", 200), ("Bearer s3cre", 401), ("", 401)):
                asking = http.client.HTTPConnection(place, timeout=60)
                headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
                first = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                body = json.dumps({**ASK, "method": "initialize", "params": first})
                asking.request("POST", f"/{path}", body, {**headers, "authorization": token} if token else headers)
                assert asking.getresponse().status == status
                asking.close()
        finally:
            server.terminate()
