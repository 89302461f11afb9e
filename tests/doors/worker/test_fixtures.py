"""Five conversations that every worker of this protocol has to hold, each written whole before anything is read.

Our own agent answers, with a model over HTTP. What a client of 0.2 must not see, one of 0.4 must.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.worker.test_door import Client
from treadle.agent.native import NativeAgent
from treadle.agent.providers.script import ErrorLine, Fault, parse
from treadle.doors.worker.door import Worker
from treadle.testing.server import ModelServer

VERSIONS = ["0.2.0", "0.4.0"]
USED = "usage = { input = 20, output = 6 }\n"
SAY = f'[[reply]]\ntext = "Files."\n{USED}'
SEND = {"type": "send", "id": "2", "message": "Which files are there?"}
SHUTDOWN = {"type": "shutdown", "id": "9"}
PROMPTED = {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26}


def call(name: str, arguments: str) -> str:
    return f'[[reply]]\n{USED}[[reply.call]]\nname = "{name}"\narguments = {{ {arguments} }}\n'


class Fixture:
    """A worker in a directory with two files. `play` gives the lines of the answer without what differs every time."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.code: int | None = None

    async def play(
        self, version: str, script: str, *requests: Any, faults: tuple[Fault | ErrorLine, ...] = (), **env: str
    ) -> list[dict[str, Any]]:
        tools = ["read_file", "glob"]
        config = {"model": "test/model", "system_prompt": "s", "tools": tools, "task_id": "t1", "worker_id": "w1"}
        init = {"type": "init", "id": "1", "protocol_version": version, "config": config}
        async with ModelServer(parse(script), faults=faults) as server:
            address = {"HEDDLE_BASE_URL": f"{server.url}/v1", "OPENROUTER_API_KEY": "k", "TREADLE_RETRY_SECONDS": "0"}
            environ, client = {**address, **env}, Client()
            serving = Worker(NativeAgent(environ), client, environ=environ, warn=client.warnings.append)
            client.ask(init, *requests)
            client.close()
            self.code = await asyncio.wait_for(serving.run(), 60)
        return [_plain(json.loads(line)) for line in client.written()]


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    for name in (
        "session_id",
        "task_id",
        "worker_id",
        "model_latency_ms",
        "tool_latency_ms",
        "total_latency_ms",
        "send_id",
    ):
        line.pop(name, None)
    if isinstance(event := line.get("event"), dict):
        for name in ("result_preview", "details", "provider", "generation_id"):
            event.pop(name, None)
    return line


@pytest.fixture
async def fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fixture]:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("some text\n")
    monkeypatch.chdir(work)
    yield Fixture(work)


@pytest.mark.parametrize("version", VERSIONS)
async def test_normal(fixture: Fixture, version: str) -> None:
    began, *events, result, ended = await fixture.play(version, call("glob", 'pattern = "*.txt"') + SAY, SEND, SHUTDOWN)
    assert (began["type"], began["id"], began["protocol_version"]) == ("init_ok", "1", version)
    routed = [one for one in events if one["event"]["event"] == "routed_model"]
    assert not routed or version != "0.2.0"
    assert [one["event"] for one in events if one not in routed] == [
        {"event": "usage", **PROMPTED},
        {"event": "tool_start", "name": "glob", "args": {"pattern": "*.txt"}},
        {"event": "tool_end", "name": "glob"},
        {"event": "content_delta", "text": "Files."},
        {"event": "usage", **PROMPTED},
    ]
    assert [one["event_seq"] for one in events] == list(range(len(events)))
    assert ("generation_id" in result["usage"]) == (version != "0.2.0")
    result["usage"].pop("generation_id", None)
    assert result == {
        "type": "result",
        "id": "2",
        "status": "ok",
        "response": "Files.",
        "iterations": 2,
        "usage": {name: 2 * count for name, count in PROMPTED.items()},
        "tool_calls_made": [{"name": "glob", "args": {"pattern": "*.txt"}}],
    }
    assert ended == {"type": "shutdown_ok", "id": "9"} and fixture.code == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_error(fixture: Fixture, version: str) -> None:
    down = ErrorLine(status=500, message="out of order")
    began, *events, result, ended = await fixture.play(version, SAY, SEND, SHUTDOWN, faults=(down,) * 20)
    [told] = [one for one in events if one["event"]["event"] == "error"]
    assert told["event"]["code"] == result["error"]["code"] == "provider_error"
    assert "out of order" in told["event"]["message"] and told["event"]["message"] == result["error"]["message"]
    assert (result["status"], result["iterations"], result["tool_calls_made"]) == ("error", 0, [])
    assert ("failure" in result) is (version != "0.2.0") and ended == {"type": "shutdown_ok", "id": "9"}
    assert began["type"] == "init_ok" and fixture.code == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_cancel(fixture: Fixture, version: str) -> None:
    cancel = {"type": "cancel", "id": "3", "target_id": "2"}
    began, result, ended = await fixture.play(version, SAY, SEND, cancel, SHUTDOWN)
    assert began["type"] == "init_ok" and ended == {"type": "shutdown_ok", "id": "9"} and fixture.code == 0
    assert (result["id"], result["status"], result["tool_calls_made"]) == ("2", "error", [])
    assert result["error"] == {"code": "cancelled", "message": "cancelled", "retryable": False}
    assert ("failure" in result) is (version != "0.2.0")


@pytest.mark.parametrize("version", VERSIONS)
async def test_heartbeat(fixture: Fixture, version: str) -> None:
    slow = SAY + "delay = 0.3\n"
    script = call("read_file", 'path = "a.txt"') + slow
    _, *events, result, _ = await fixture.play(version, script, SEND, SHUTDOWN, HEDDLE_HEARTBEAT_INTERVAL="50")
    kinds = [one["event"]["event"] for one in events]
    assert "heartbeat" in kinds and [one["event_seq"] for one in events] == list(range(len(events)))
    assert [kind for kind in kinds if kind not in ("heartbeat", "routed_model")] == [
        *("usage", "tool_start", "tool_end"),
        *("content_delta", "usage"),
    ]
    assert result["status"] == "ok" and result["tool_calls_made"] == [{"name": "read_file", "args": {"path": "a.txt"}}]


@pytest.mark.parametrize("version", ["1.1.0", "2.0.0"])
async def test_version_mismatch(fixture: Fixture, version: str) -> None:
    [refused] = await fixture.play(version, SAY)
    assert (refused["type"], refused["id"], refused["protocol_version"], fixture.code) == ("init_ok", "1", "0.2.0", 0)
    assert (refused["error"]["code"], refused["error"]["retryable"]) == ("protocol_version_mismatch", False)
