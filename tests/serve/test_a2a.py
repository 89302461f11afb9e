"""The HTTP side of A2A, in the test's own process on loopback: who gets in, what is JSON-RPC, streams."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.stand_ins.sessions import ScriptedAgent
from treadle.doors.a2a.door import A2aDoor
from treadle.events import Message, TextDelta
from treadle.serve import agents
from treadle.serve.agents import A2aServer
from treadle.serve.gate import BODY_MAX
from treadle.serve.listening import Listening
from treadle.serve.server import served
from treadle.serve.tokens import Tokens
from treadle.session import AgentInfo, SessionSpec
from treadle.wire.a2a.messages import CARD_PATH

HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}


class Client:
    def __init__(self, address: str, token: str = "") -> None:
        headers = {"a2a-version": "1.0", **({"authorization": f"Bearer {token}"} if token else {})}
        self.http = httpx2.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False)

    async def raw(self, method: str, params: Any, **headers: str) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post("/", json=body, headers=headers)

    async def call(self, method: str, params: Any = None) -> Any:
        found = (await self.raw(method, params or {})).json()
        assert "result" in found, found
        return found["result"]

    async def refused(self, method: str, params: Any = None, **headers: str) -> int:
        return int((await self.raw(method, params or {}, **headers)).json()["error"]["code"])


@asynccontextmanager
async def served_agent(
    tmp_path: Path, *turns: Sequence[Any], token: bool = False
) -> AsyncIterator[tuple[Client, Tokens]]:
    tokens = Tokens(str(tmp_path / "tokens.json"))
    listening = Listening(port=0)
    info = AgentInfo(name="scripted", version="1.2")
    spec = SessionSpec(cwd=str(tmp_path), answers=True)
    door = A2aDoor(ScriptedAgent(*turns), info, base=spec, warn=lambda text: None)
    kept = tokens if token else None
    server = A2aServer(door, address=listening.address, names=listening.names, tokens=kept)
    async with served(server, listening):
        client = Client(listening.address, tokens.make("me", "all")[1] if token else "")
        async with client.http:
            yield client, tokens


async def test_the_card_is_public_and_everything_else_needs_a_token(tmp_path: Path) -> None:
    async with served_agent(tmp_path, token=True) as (client, _):
        nobody = {"authorization": ""}
        card = await client.http.get(CARD_PATH, headers=nobody)
        assert card.status_code == 200 and card.json()["name"] == "Treadle (scripted)" and "etag" in card.headers
        assert card.json()["securityRequirements"] == [{"schemes": {"token": {"list": []}}}]
        refused = await client.raw("ListTasks", {}, **nobody)
        assert refused.status_code == 401 and "treadle a2a --token" in refused.text
        assert (await client.raw("ListTasks", {}, authorization="Bearer x")).status_code == 401
        assert (await client.call("ListTasks"))["totalSize"] == 0


async def test_each_token_has_tasks_of_its_own_until_it_is_revoked(tmp_path: Path) -> None:
    async with served_agent(tmp_path, token=True) as (client, tokens):
        task = (await client.call("SendMessage", {"message": HELLO}))["task"]
        other = {"authorization": f"Bearer {tokens.make('other', 'all')[1]}"}
        assert await client.refused("GetTask", {"id": task["id"]}, **other) == -32001
        tokens.revoke("other")
        assert (await client.raw("GetTask", {"id": task["id"]}, **other)).status_code == 401


async def test_another_host_name_or_page_is_refused_also_without_a_token(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as (client, _):
        assert (await client.raw("ListTasks", {}, host="evil.example")).status_code == 421
        assert (await client.raw("ListTasks", {}, origin="https://evil.example")).status_code == 403
        assert (await client.http.get(CARD_PATH, headers={"host": "evil.example"})).status_code == 421


async def test_what_is_no_request_gets_the_error_of_json_rpc(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as (client, _):
        for body, code in (
            (b"{oh no", -32700),
            (b"[" * 100_000, -32700),
            (b'"\xff"', -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + b'{"a":' * 700 + b"1" + b"}" * 701, -32602),
            (b"[]", -32600),
            (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', -32600),
            (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
            (b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}', -32007),
        ):
            answer = await client.http.post(
                "/", content=body, headers={"content-type": "application/json", "a2a-version": "1.0"}
            )
            assert answer.json()["error"]["code"] == code, body
        assert await client.refused("ListTasks", **{"content-type": "text/plain"}) == -32005
        assert await client.refused("ListTasks", **{"a2a-version": "7.0"}) == -32009
        whole = b'{"jsonrpc":"2.0","id":"seven","method":"ListTasks"}'
        for kind in ("Application/JSON; charset=utf-8", "application/a2a+json", "application/json-rpc"):
            answer = await client.http.post("/", content=whole, headers={"content-type": kind})
            assert answer.json()["id"] == "seven" and answer.json()["result"]["totalSize"] == 0
        for id, told in ((b"null", None), (b"true", None), (b"3", 3)):
            answer = await client.http.post("/", content=whole.replace(b'"seven"', id), headers={"content-type": kind})
            assert answer.json()["id"] == told and ("error" in answer.json()) is (id == b"true")
        wrong = (await client.raw("ListTasks", {}, **{"a2a-version": "7.0"})).json()
        assert wrong["id"] == 1 and "is '7.0'; the version here is 1.0" in wrong["error"]["message"]
        assert wrong["error"]["data"][0]["domain"] == "a2a-protocol.org"
        unknown = (await client.raw("no/such", {})).json()["error"]
        assert "data" not in unknown
        asked = "/?A2A-Version=7.0"
        by_query = await client.http.post(asked, content=whole, headers={"content-type": kind, "a2a-version": ""})
        assert by_query.json()["error"]["code"] == -32009
        large = await client.http.post("/", content=b" " * (BODY_MAX + 1))
        assert large.status_code == 413


async def test_a_stream_is_server_sent_events_with_the_id_of_the_request(tmp_path: Path) -> None:
    async with served_agent(tmp_path, [TextDelta(text="One"), Message(text="One")]) as (client, _):
        answer = await client.raw("SendStreamingMessage", {"message": HELLO})
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [msgspec.json.decode(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert {event["id"] for event in events} == {1} and "task" in events[0]["result"]
        assert events[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        refused = await client.raw("SubscribeToTask", {"id": "none"})
        assert refused.json()["error"]["code"] == -32001


async def test_no_one_is_called_back(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as (client, _):
        assert (await client.http.get(CARD_PATH)).json()["capabilities"]["pushNotifications"] is False
        push = {"taskPushNotificationConfig": {"url": "https://hooks.example/"}}
        assert await client.refused("SendMessage", {"message": HELLO, "configuration": push}) == -32003
        assert (await client.call("ListTasks"))["totalSize"] == 0, "nothing was begun"


async def test_only_so_many_streams_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "STREAMS_MAX", 1)
    go = asyncio.Event()
    async with served_agent(tmp_path, [TextDelta(text="One"), go, Message(text="One")]) as (client, _):
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": HELLO}}
        async with asyncio.timeout(60), client.http.stream("POST", "/", json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            refused = (await client.raw("SendStreamingMessage", {"message": HELLO})).json()["error"]
            assert refused["code"] == -32603 and "1 streams are open" in refused["message"]
            go.set()
            assert "TASK_STATE_COMPLETED" in [line async for line in lines][-2]
