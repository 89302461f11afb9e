"""What doors over JSON-RPC share: every call is answered, and a client that leaves costs nothing."""

import asyncio
import json
from typing import Any

import pytest

from tests.streams import MemoryStream, pair
from treadle.doors.fields import FieldTable
from treadle.doors.rpc import RpcDoor
from treadle.wire.acp.connection import Connection
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault


class Served:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.turn = asyncio.Event()

    async def cancel(self) -> None:
        self.seen.append("cancel")
        self.turn.set()

    async def close(self) -> None:
        self.seen.append("close")


class Door(RpcDoor[Served]):
    def __init__(self, stream: MemoryStream, warn: Any) -> None:
        super().__init__(Connection("agent"), stream, warn, FieldTable("acp", INVALID_PARAMS))
        self.one = Served()
        self._sessions["s"] = self.one
        self._methods = {"initialize": self._first, "session/prompt": self._prompt, "session/new": self._refuse}

    async def _first(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"protocolVersion": 1}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            await self.one.turn.wait()
        except asyncio.CancelledError:
            self.one.seen.append("ended")
            raise
        return {"stopReason": "cancelled"}

    async def _refuse(self, params: dict[str, Any]) -> dict[str, Any]:
        raise Fault(INVALID_PARAMS, "no such directory")


class Client:
    def __init__(self) -> None:
        self.stream, ours = pair()
        self.warnings: list[str] = []
        self.door = Door(ours, self.warnings.append)
        self.running = asyncio.create_task(self.door.run())
        self._rest = b""

    async def say(self, id: int, method: str, **params: Any) -> None:
        call = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        await self.stream.write(json.dumps(call).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while b"\n" not in self._rest:
                self._rest += await self.stream.read()
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    async def call(self, id: int, method: str, **params: Any) -> dict[str, Any]:
        await self.say(id, method, **params)
        return await self.hear()


@pytest.fixture
async def client() -> Client:
    made = Client()
    assert (await made.call(0, "initialize", protocolVersion=1))["result"] == {"protocolVersion": 1}
    return made


async def test_each_call_is_answered_by_its_method_or_with_why_not(client: Client) -> None:
    refused = await client.call(1, "session/new", cwd="/nowhere", mcpServers=[])
    assert refused["error"]["code"] == INVALID_PARAMS and "no such directory" in refused["error"]["message"]
    unknown = await client.call(2, "session/dance")
    assert unknown["error"]["code"] == METHOD_NOT_FOUND and "session/dance" in unknown["error"]["message"]
    client.stream.close_write()
    assert await asyncio.wait_for(client.running, 60) == 0


async def test_one_call_does_not_hold_up_the_next(client: Client) -> None:
    await client.say(1, "session/prompt", sessionId="s", prompt=[])
    assert (await client.call(2, "session/dance"))["id"] == 2
    client.door.one.turn.set()
    assert (await client.hear())["id"] == 1
    client.stream.close_write()
    await asyncio.wait_for(client.running, 60)


async def test_when_the_client_asks_nothing_more_turns_are_interrupted_and_their_answers_still_come(
    client: Client,
) -> None:
    await client.say(1, "session/prompt", sessionId="s", prompt=[])
    client.stream.close_write()
    answer = await client.hear()
    assert answer["id"] == 1 and answer["result"]["stopReason"] == "cancelled"
    assert await asyncio.wait_for(client.running, 60) == 0
    assert client.door.one.seen == ["cancel", "close"]


async def test_when_the_client_is_gone_its_sessions_are_closed(client: Client) -> None:
    await client.say(1, "session/prompt", sessionId="s", prompt=[])
    await client.call(2, "session/dance")
    client.stream.close()
    assert await asyncio.wait_for(client.running, 60) == 0
    assert client.door.one.seen[-1] == "close" and {"ended", "cancel"} & set(client.door.one.seen)


async def test_what_is_no_message_is_warned_of_and_ends_the_door(client: Client) -> None:
    await client.stream.write(b"x" * (80 << 20))
    client.stream.close_write()
    assert await asyncio.wait_for(client.running, 60) == 0
    assert len(client.warnings) <= 1 and client.door.one.seen[-1] == "close"


async def test_a_helper_is_ended_with_the_door_and_forgotten_when_it_is_done(client: Client) -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def short() -> None:
        return None

    client.door._help(endless())
    client.door._help(short())
    async with asyncio.timeout(60):
        while len(client.door._helpers) != 1:
            await asyncio.sleep(0)
    client.stream.close_write()
    assert await asyncio.wait_for(client.running, 60) == 0
    assert ended.is_set()
