"""ACP over WebSockets, in the test's own process on loopback: who gets in, and that messages come whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.stand_ins.sessions import ScriptedAgent
from treadle.doors.acp.door import AcpDoor
from treadle.events import Message, TextDelta
from treadle.serve import agents
from treadle.serve.agents import ACP_PATH, AcpServer
from treadle.serve.listening import Listening
from treadle.serve.server import served
from treadle.serve.tokens import Tokens
from treadle.session import SessionSpec

HELLO = {"protocolVersion": 1, "clientCapabilities": {}}


@asynccontextmanager
async def serving(tmp_path: Path, *turns: Sequence[Any]) -> AsyncIterator[tuple[str, Tokens]]:
    tokens, listening, agent = Tokens(str(tmp_path / "tokens.json")), Listening(port=0), ScriptedAgent(*turns)
    base = SessionSpec(cwd=str(tmp_path))
    server = AcpServer(
        lambda stream: AcpDoor(agent, stream, base=base, warn=lambda text: None),
        address=listening.address,
        names=listening.names,
        tokens=tokens,
    )
    async with served(server, listening):
        yield listening.address.replace("http", "ws", 1) + ACP_PATH, tokens


def editor(url: str, token: str) -> connect:
    return connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None, max_size=None)


async def call(socket: ClientConnection, method: str, params: Any) -> Any:
    """The result. What comes before it are updates."""
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}, indent=1))
    async with asyncio.timeout(60):
        while (line := json.loads(await socket.recv())).get("id") != method:
            pass
    return line["result"]


async def test_a_turn_of_a_client_with_a_token_also_with_a_megabyte_on_many_lines(tmp_path: Path) -> None:
    large = "y" * 1_000_000
    async with serving(tmp_path, [TextDelta(text=large), Message(text=large)]) as (url, tokens):
        async with editor(url, tokens.make("me", "all")[1]) as socket:
            assert (await call(socket, "initialize", HELLO))["protocolVersion"] == 1
            session = (await call(socket, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["sessionId"]
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": f"Hi.\n{large}"}]}
            assert (await call(socket, "session/prompt", prompt))["stopReason"] == "end_turn"


async def test_without_a_token_or_with_one_that_only_watches_no_one_gets_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, tokens):
        for token in ("", "x", tokens.make("watcher", "watch")[1], tokens.make("answerer", "answer")[1]):
            with pytest.raises(InvalidStatus) as refused:
                async with editor(url, token):
                    pass
            assert refused.value.response.status_code == 403


async def test_bytes_end_the_connection_and_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, tokens):
        token = tokens.make("me", "all")[1]
        async with editor(url, token) as first, editor(url, token) as second:
            await first.send(b"\x00")
            with pytest.raises(ConnectionClosed):
                async with asyncio.timeout(60):
                    await first.recv()
            assert (await call(second, "initialize", HELLO))["protocolVersion"] == 1


async def test_more_editors_than_there_is_room_for_are_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "EDITORS_MAX", 1)
    async with serving(tmp_path) as (url, tokens):
        token = tokens.make("me", "all")[1]
        async with editor(url, token) as first:
            await call(first, "initialize", HELLO)
            with pytest.raises(InvalidStatus):
                async with editor(url, token):
                    pass
