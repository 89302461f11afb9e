"""The app-server door against scripted sessions, over a stream in memory. Real clients are in tests/live."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from treadle.doors.codex.door import AppServerDoor
from treadle.errors import NotFound, ProviderError
from treadle.events import Asked, TextDelta, ToolStarted, Usage, Warned
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.streams import pair
from treadle.session import AgentInfo, Change, ModelMenu, OfferedModel, Prompt, SessionSpec, StoredSession
from treadle.testing.sessions import ScriptedAgent, ScriptedSession
from treadle.wire.codex.connection import Connection
from treadle.wire.common.rpc import RpcCall, RpcNotice

RUN = Asked(request="r", kind="permission", text="", name="bash", call="c", command="ls", tool_kind="execute")


class Client:
    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.reply: Any = {"decision": "accept"}
        self.changed = asyncio.Event()

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.rpc.call(method, params), 60)

    async def until(self, method: str, count: int = 1) -> dict[str, Any]:
        while len(found := [params for name, params in self.told if name == method]) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)
        return found[count - 1]

    async def thread(self, cwd: Path, **more: Any) -> str:
        return str((await self.call("thread/start", cwd=str(cwd), **more))["thread"]["id"])

    async def turn(self, thread: str, text: str, count: int = 1, **more: Any) -> dict[str, Any]:
        """The turn as it was completed."""
        await self.call("turn/start", threadId=thread, input=said(text), **more)
        return dict((await self.until("turn/completed", count))["turn"])

    def names(self) -> list[str]:
        return [name for name, _ in self.told]


@asynccontextmanager
async def opened(agent: ScriptedAgent, cwd: Path, greeting: dict[str, Any] | None = None) -> AsyncIterator[Client]:
    ours, theirs = pair()
    link = Link(ours, Connection("host"))
    client: Client

    async def answer(call: RpcCall) -> Any:
        client.asked.append((call.method, call.params))
        client.changed.set()
        if client.reply is None:
            await asyncio.Event().wait()
        return client.reply

    def notice(note: RpcNotice) -> None:
        client.told.append((note.method, note.params))
        client.changed.set()

    client = Client(Rpc(link.send, answer=answer, notice=notice))

    async def read() -> None:
        async for messages in link.batches():
            client.rpc.take(messages)

    door = AppServerDoor(agent, theirs, base=SessionSpec(cwd=str(cwd), answers=True), warn=print)
    gone, reading = asyncio.create_task(door.run()), asyncio.create_task(read())
    try:
        await client.call("initialize", clientInfo={"name": "test", "version": "1"}, **(greeting or {}))
        yield client
    finally:
        ours.close_write()
        assert await asyncio.wait_for(gone, 60) == 0
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.rpc.close()


def said(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "text_elements": []}]


async def test_a_turn_is_answered_first_and_then_told_to_its_end(tmp_path: Path) -> None:
    agent = ScriptedAgent([TextDelta(text="he"), TextDelta(text="llo"), Usage(input_tokens=3, output_tokens=2)])
    async with opened(agent, tmp_path) as client:
        thread = await client.thread(tmp_path)
        turn = await client.turn(thread, "hi")
        read = await client.call("thread/read", threadId=thread, includeTurns=True)
    assert turn["status"] == "completed" and turn["error"] is None
    assert client.names() == [
        "thread/started",
        "thread/status/changed",
        "turn/started",
        "item/started",
        "item/completed",
        "item/started",
        "item/agentMessage/delta",
        "item/agentMessage/delta",
        "thread/tokenUsage/updated",
        "item/completed",
        "thread/status/changed",
        "turn/completed",
    ]
    [shown] = read["thread"]["turns"]
    assert [item["type"] for item in shown["items"]] == ["userMessage", "agentMessage"]
    assert read["thread"]["preview"] == "hi" and agent.sessions[0].closed


async def test_usage_counts_over_the_thread(tmp_path: Path) -> None:
    used = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=1)
    async with opened(ScriptedAgent([used], [used]), tmp_path) as client:
        thread = await client.thread(tmp_path)
        await client.turn(thread, "one")
        await client.turn(thread, "two", 2)
        told = (await client.until("thread/tokenUsage/updated", 2))["tokenUsage"]
    assert (told["total"]["totalTokens"], told["last"]["totalTokens"], told["last"]["inputTokens"]) == (12, 6, 4)


async def test_an_approval_is_asked_shown_and_resolved(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([RUN, TextDelta(text="done")]), tmp_path) as client:
        thread = await client.thread(tmp_path, approvalPolicy="untrusted", sandbox="read-only")
        assert (await client.turn(thread, "go"))["status"] == "completed"
    [(method, params)] = client.asked
    assert method == "item/commandExecution/requestApproval" and params["command"] == "ls"
    resolved = client.names().index("serverRequest/resolved")
    assert client.told[resolved][1]["requestId"] and "waitingOnApproval" in str(client.told)


async def test_who_wants_no_questions_gets_denials(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([RUN]), tmp_path) as client:
        thread = await client.thread(tmp_path, approvalPolicy="never", sandbox="read-only")
        await client.turn(thread, "go")
    assert client.asked == []


async def test_cancel_denies_and_ends_the_turn(tmp_path: Path) -> None:
    waits = asyncio.Event()
    async with opened(ScriptedAgent([RUN, waits]), tmp_path) as client:
        client.reply = {"decision": "cancel"}
        thread = await client.thread(tmp_path)
        assert (await client.turn(thread, "go"))["status"] == "interrupted"


async def test_a_turn_can_be_steered_and_interrupted(tmp_path: Path) -> None:
    waits = asyncio.Event()
    agent = ScriptedAgent([ToolStarted(call="c", name="bash", command="ls"), waits])
    async with opened(agent, tmp_path) as client:
        thread = await client.thread(tmp_path)
        with pytest.raises(CallFailed, match="no active turn"):
            await client.call("turn/steer", threadId=thread, expectedTurnId="x", input=said("more"))
        turn = (await client.call("turn/start", threadId=thread, input=said("go")))["turn"]["id"]
        await client.until("item/started", 2)
        with pytest.raises(CallFailed, match="expected active turn id"):
            await client.call("turn/steer", threadId=thread, expectedTurnId="x", input=said("more"))
        told = await client.call("turn/steer", threadId=thread, expectedTurnId=turn, input=said("more"))
        assert told == {"turnId": turn}
        again = await client.call("turn/start", threadId=thread, input=said("and more"))
        assert again["turn"]["id"] == turn, "as Codex does, a second turn/start adds to the running turn"
        assert await client.call("turn/interrupt", threadId=thread, turnId=turn) == {}
        assert (await client.until("turn/completed"))["turn"]["status"] == "interrupted"
    assert agent.sessions[0].steered == ["more", "and more"]


async def test_a_failure_is_an_error_and_then_the_end_of_the_turn(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ProviderError("down")]), tmp_path) as client:
        thread = await client.thread(tmp_path)
        turn = await client.turn(thread, "go")
    assert turn["status"] == "failed" and turn["error"]["message"] == "down"
    names = client.names()
    assert names.index("error") < names.index("turn/completed")
    assert {"type": "systemError"} in [params.get("status") for _, params in client.told]


async def test_a_turn_may_change_the_mode_the_model_and_the_effort_but_not_the_directory(tmp_path: Path) -> None:
    agent = Chooser()
    async with opened(agent, tmp_path) as client:
        thread = await client.thread(tmp_path)
        policy = {"type": "workspaceWrite", "writableRoots": []}
        await client.turn(thread, "a", model="small", effort="low", approvalPolicy="on-request", sandboxPolicy=policy)
        await client.turn(thread, "b", 2, model="small", effort="default", cwd=str(tmp_path))
        with pytest.raises(CallFailed, match="keeps its directory"):
            await client.call("turn/start", threadId=thread, input=said("c"), cwd="/")
        listed = await client.call("model/list")
    assert [change.mode or change.model or change.thinking for change in agent.changes] == [
        "full-auto",
        "small",
        agent.changes[2].thinking,
    ]
    assert [one["model"] for one in listed["data"]] == ["big", "small"]


async def test_what_is_not_offered_is_refused_and_what_is_not_used_is_named_once(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(cannot=["effort", "switch_model"]), tmp_path) as client:
        thread = await client.thread(tmp_path, personality="friendly")
        await client.until("warning")
        await client.call("thread/start", cwd=str(tmp_path), personality="friendly")
        for method, params in (
            ("_thread/name/set", {"threadId": thread, "name": "x"}),
            ("turn/start", {"threadId": thread, "input": said("x"), "outputSchema": {"type": "object"}}),
            ("turn/start", {"threadId": thread, "input": said("x"), "effort": "low"}),
            ("turn/start", {"threadId": thread, "input": said("x"), "model": "other"}),
            ("turn/start", {"threadId": "none", "input": said("x")}),
            ("thread/start", {"cwd": "here"}),
            ("thread/fork", {"threadId": thread, "lastTurnId": "x", "cwd": str(tmp_path)}),
            ("thread/read", {"threadId": "none"}),
            ("thread/read", {"threadId": "none", "includeTurns": True}),
            ("thread/compact/start", {"threadId": thread}),
            ("turn/start", {"input": said("x")}),
        ):
            with pytest.raises(CallFailed):
                await client.call(method, **params)
    assert client.names().count("warning") == 1


async def test_editors_get_the_lists_that_they_ask_for(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        assert (await client.call("account/read"))["requiresOpenaiAuth"] is False
        assert "config" in await client.call("config/read")
        assert (await client.call("skills/list"))["data"] == []
        assert len((await client.call("model/list"))["data"]) == 0
        thread = await client.thread(tmp_path)
        assert (await client.call("thread/loaded/list"))["data"] == [thread]
        assert (await client.call("thread/turns/list", threadId=thread))["data"] == []
        assert (await client.call("thread/unsubscribe", threadId=thread))["status"] == "unsubscribed"
        assert (await client.until("thread/closed"))["threadId"] == thread
        assert (await client.call("thread/unsubscribe", threadId=thread))["status"] == "notLoaded"


async def test_warnings_from_before_the_first_turn_are_told(tmp_path: Path) -> None:
    class Warning(ScriptedAgent):
        async def open(self, spec: SessionSpec) -> ScriptedSession:
            session = await super().open(spec)
            session.emit(Warned(message="careful"))
            return session

    async with opened(
        Warning(), tmp_path, {"capabilities": {"optOutNotificationMethods": ["thread/started"]}}
    ) as client:
        await client.thread(tmp_path)
        assert (await client.until("warning"))["message"] == "careful"
    assert "thread/started" not in client.names()


async def test_kept_threads_are_listed_read_and_resumed(tmp_path: Path) -> None:
    async with opened(Keeper(tmp_path), tmp_path) as client:
        page = await client.call("thread/list", limit=2, cwd=str(tmp_path))
        assert [one["id"] for one in page["data"]] == ["s0", "s1"] and page["nextCursor"] == "2"
        page = await client.call("thread/list", limit=2, cursor="2")
        assert [one["id"] for one in page["data"]] == ["s2"] and page["nextCursor"] is None
        assert (await client.call("thread/list", searchTerm="TWO"))["data"][0]["preview"] == "number two"
        assert (await client.call("thread/list", archived=True, cwd=["/a", "/b"]))["data"] == []
        assert (await client.call("thread/read", threadId="s1"))["thread"]["status"] == {"type": "notLoaded"}
        told = await client.call("thread/resume", threadId="s1")
        assert told["cwd"] == str(tmp_path) and told["turnsBackwardsCursor"] is None
        again = await client.call("thread/resume", threadId=told["thread"]["id"])
        assert again["thread"]["id"] == told["thread"]["id"]
        with pytest.raises(CallFailed, match="no rollout found"):
            await client.call("thread/resume", threadId="gone")


class Keeper(ScriptedAgent):
    """Keeps three sessions of a directory."""

    def __init__(self, cwd: Path) -> None:
        super().__init__()
        self._cwd = str(cwd)

    async def probe(self) -> AgentInfo:
        return AgentInfo(name="keeper")

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        words = ("one", "two", "three")
        return [StoredSession(id=f"s{at}", cwd=self._cwd, title=f"number {word}") for at, word in enumerate(words)]

    async def open(self, spec: SessionSpec) -> ScriptedSession:
        if spec.start.resume == "gone":
            raise NotFound("it is gone")
        return await super().open(spec)


class ChooserSession(ScriptedSession):
    def __init__(self, agent: "Chooser", spec: SessionSpec) -> None:
        super().__init__(spec, [])
        self._agent = agent

    async def menu(self) -> ModelMenu:
        return ModelMenu(current="big", offered=(OfferedModel(id="big"), OfferedModel(id="small")))

    async def _configure(self, change: Change) -> None:
        self._agent.changes.append(change)


class Chooser(ScriptedAgent):
    """Its sessions have two models."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []

    async def open(self, spec: SessionSpec) -> ChooserSession:  # type: ignore[override]
        return ChooserSession(self, spec)


async def test_a_turn_that_the_agent_starts_itself_is_told(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with opened(agent, tmp_path) as client:
        await client.thread(tmp_path)
        await agent.sessions[0].prompt(Prompt(text="a task has ended", source="task"))
        turn = (await client.until("turn/completed"))["turn"]
    assert turn["status"] == "completed"
