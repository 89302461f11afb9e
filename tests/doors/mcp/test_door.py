"""The door against scripted sessions, over a stream in memory. The official client is in tests/e2e/test_mcp.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.sessions import ScriptedAgent
from tests.streams import pair
from treadle.doors.mcp.door import McpDoor
from treadle.errors import ConfigError, ProviderError
from treadle.events import Asked, Message, TextDelta, ToolStarted
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.session import Agent, Mode, SessionSpec
from treadle.wire.common.rpc import RpcCall, RpcNotice
from treadle.wire.mcp.connection import Connection

ASKED = Asked(request="r1", kind="permission", text="may I?", name="bash", command="make")
QUESTION = Asked(request="q1", kind="question", text="which?", options=("red", "blue"))


class Client:
    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.notices: list[RpcNotice] = []
        self.asked: list[dict[str, Any]] = []
        self.reply: Any = {"action": "accept", "content": {"answer": "allow"}}

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a program gets of a result."""
        return (await self.whole(tool, **arguments))["structuredContent"]

    async def whole(self, tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
        return await asyncio.wait_for(self.rpc.call("tools/call", params), 60)


@asynccontextmanager
async def client(
    agent: ScriptedAgent, cwd: Path, mode: Mode = "suggest", abilities: dict[str, Any] | None = None
) -> AsyncIterator[Client]:
    ours, theirs = pair()
    link = Link(ours, Connection("client"))
    made: Client

    async def answer(call: RpcCall) -> Any:
        made.asked.append(call.params)
        if isinstance(made.reply, Exception):
            raise made.reply
        return made.reply

    rpc = Rpc(link.send, answer=answer, notice=lambda notice: made.notices.append(notice))
    made = Client(rpc)

    async def read() -> None:
        async for messages in link.batches():
            rpc.take(messages)

    def find(name: str) -> Agent:
        if name == "nobody":
            raise ConfigError("there is no agent 'nobody'")
        return agent

    base = SessionSpec(cwd=str(cwd), mode=mode, answers=True)
    serving = asyncio.create_task(McpDoor(find, "scripted", theirs, base=base, warn=print).run())
    reading = asyncio.create_task(read())
    try:
        await rpc.call("initialize", {"protocolVersion": "2025-11-25", "capabilities": abilities or {}})
        yield made
    finally:
        ours.close_write()
        assert await asyncio.wait_for(serving, 60) == 0
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await rpc.close()
        assert all(session.closed for session in agent.sessions)


async def test_a_run_waits_for_the_end_and_tells_progress(tmp_path: Path) -> None:
    steps = [Message(text="Looking."), ToolStarted(call="c", name="bash", command="ls"), TextDelta(text="Found.")]
    async with client(ScriptedAgent(steps), tmp_path) as talk:
        said = await talk.call("run", prompt="look")
    assert (said["status"], said["agent"], said["directory"]) == ("completed", "scripted", str(tmp_path))
    assert [(one.params["progress"], one.params["message"]) for one in talk.notices] == [
        (1, "Looking."),
        (2, "bash: ls"),
    ]


async def test_a_failed_run_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with client(ScriptedAgent([ProviderError("overloaded")]), tmp_path) as talk:
        result = await talk.whole("run", prompt="x")
    assert result["isError"] and result["structuredContent"]["error"]["message"] == "overloaded"


async def test_a_person_who_can_be_asked_is_asked(tmp_path: Path) -> None:
    agent = ScriptedAgent([ASKED, QUESTION, TextDelta(text="done")])
    async with client(agent, tmp_path, abilities={"elicitation": {}}) as talk:
        said = await talk.call("run", prompt="x")
    assert said["status"] == "completed"
    assert talk.asked[0]["message"] == "may I?\nmake"
    choices = [params["requestedSchema"]["properties"]["answer"]["enum"] for params in talk.asked]
    assert choices == [["allow", "allow for this session", "deny"], ["red", "blue"]]


@pytest.mark.parametrize(
    ("reply", "decision", "scope"),
    [
        ({"action": "accept", "content": {"answer": "allow"}}, "allow", "once"),
        ({"action": "accept", "content": {"answer": "allow for this session"}}, "allow", "session"),
        ({"action": "accept", "content": {"answer": "deny"}}, "deny", "once"),
        ({"action": "accept", "content": {"answer": "whatever"}}, "deny", "once"),
        ({"action": "accept", "content": {}}, "deny", "once"),
        ({"action": "accept", "content": {"answer": "allow", "input": {"command": "make all"}}}, "deny", "once"),
        ({"action": "decline"}, "deny", "once"),
        ("odd", "deny", "once"),
    ],
)
async def test_what_a_person_does_not_clearly_allow_is_denied(
    tmp_path: Path, reply: Any, decision: str, scope: str
) -> None:
    agent = ScriptedAgent([ASKED], cannot=("changed_input",))
    async with client(agent, tmp_path, abilities={"elicitation": {}}) as talk:
        talk.reply = reply
        await talk.call("run", prompt="x")
        [answered] = [event for event in agent.sessions[0].events().ready() if type(event).__name__ == "Answered"]
    assert (answered.decision, answered.scope) == (decision, scope)  # type: ignore[union-attr]


@pytest.mark.parametrize("abilities", [{}, {"elicitation": {}}])
async def test_without_one_the_question_comes_back_and_the_model_may_answer(
    tmp_path: Path, abilities: dict[str, Any]
) -> None:
    agent = ScriptedAgent([ASKED, TextDelta(text="done")])
    async with client(agent, tmp_path, abilities=abilities) as talk:
        talk.reply = RuntimeError("no window to ask in")
        said = await talk.call("run", prompt="x")
        assert said["status"] == "waiting"
        wrong = await talk.whole("answer", run=said["run"], decision="allow", request="other")
        assert wrong["isError"] and "open are r1" in wrong["content"][0]["text"]
        answered = await talk.call("answer", run=said["run"], decision="allow", scope="session")
        assert answered["status"] in ("running", "completed")
        while said["status"] != "completed":
            said = await talk.call("read", run=said["run"], after=0, wait_seconds=50)
        nothing = await talk.whole("answer", run=said["run"], decision="allow")
        assert nothing["isError"] and "has no open question" in nothing["content"][0]["text"]


async def test_a_call_that_is_cancelled_stops_what_it_started(tmp_path: Path) -> None:
    agent = ScriptedAgent([Message(text="at it"), asyncio.Event()])
    async with client(agent, tmp_path) as talk:
        call = asyncio.create_task(talk.call("run", prompt="x"))
        while not talk.notices:
            await asyncio.sleep(0)
        await talk.rpc.tell("notifications/cancelled", {"requestId": 2})
        while True:
            [run] = (await talk.call("status"))["runs"]
            if run["status"] == "interrupted":
                break
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_a_started_run_is_seen_cancelled_and_goes_on(tmp_path: Path) -> None:
    agent = ScriptedAgent([asyncio.Event()], [TextDelta(text="again")])
    async with client(agent, tmp_path) as talk:
        said = await talk.call("start", prompt="x")
        assert said["status"] == "running" == (await talk.call("status", run=said["run"]))["status"]
        busy = await talk.whole("start", prompt="y", run=said["run"])
        assert busy["isError"] and "still running" in busy["content"][0]["text"]
        assert (await talk.call("cancel", run=said["run"]))["status"] == "interrupted"
        assert (await talk.call("run", prompt="y", run=said["run"]))["text"] == "again"


async def test_a_client_can_ask_for_less_and_never_for_more(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    agent = ScriptedAgent()
    async with client(agent, tmp_path, mode="auto-edit") as talk:
        await talk.call("run", prompt="x", mode="full-auto")
        await talk.call("run", prompt="x", mode="plan", model="m", directory="below", seconds=9, resume="old")
        for directory in ("..", "/", "none"):
            refused = await talk.whole("run", prompt="x", directory=directory)
            assert refused["isError"] and "not a directory below" in refused["content"][0]["text"]
    first, second = (session.spec for session in agent.sessions)
    assert (first.mode, second.mode, second.model) == ("auto-edit", "plan", "m")
    assert (second.cwd, second.limits.max_seconds, second.start.resume) == (str(tmp_path / "below"), 9.0, "old")


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("run", {}, "the arguments are not right"),
        ("run", {"prompt": "x", "effort": "high"}, "the arguments are not right"),
        ("answer", {"run": "x", "decision": "allow", "args": {"command": "pwd"}}, "the arguments are not right"),
        ("run", {"prompt": ""}, "the arguments are not right"),
        ("run", {"prompt": "x", "agent": "nobody"}, "no agent"),
        ("status", {"run": "run_0"}, "no run"),
        ("read", {"run": "run_0"}, "no run"),
    ],
)
async def test_what_is_wrong_is_told_so_that_a_model_can_mend_it(
    tmp_path: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with client(ScriptedAgent(), tmp_path) as talk:
        result = await talk.whole(tool, **arguments)
    assert result["isError"] and words in result["content"][0]["text"]


async def test_a_tool_or_a_method_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with client(ScriptedAgent(), tmp_path) as talk:
        for method, params in (("tools/call", {"name": "fly"}), ("server/discover", {})):
            with pytest.raises(CallFailed):
                await talk.rpc.call(method, params)
        assert await talk.rpc.call("ping", {}) == {}
        assert len((await talk.rpc.call("tools/list", {}))["tools"]) == 6


async def test_a_client_that_leaves_ends_what_it_started(tmp_path: Path) -> None:
    agent = ScriptedAgent([asyncio.Event()])
    async with client(agent, tmp_path) as talk:
        await talk.call("start", prompt="x")
    assert agent.sessions[0].closed


async def test_what_happened_is_read_from_a_point_on(tmp_path: Path) -> None:
    go = asyncio.Event()
    agent = ScriptedAgent([Message(text="one"), go, Message(text="two")])
    async with client(agent, tmp_path) as talk:
        name = (await talk.call("start", prompt="x"))["run"]
        read = await talk.call("read", run=name)
        while not read["events"]:
            read = await talk.call("read", run=name, after=read["next"])
        assert [each["text"] for each in read["events"]] == ["one"] and read["status"] == "running"
        quiet = await talk.call("read", run=name, after=read["next"], wait_seconds=0)
        assert quiet["events"] == [] and quiet["next"] >= read["next"]
        go.set()
        seen: list[str] = []
        while read["status"] == "running":
            read = await talk.call("read", run=name, after=read["next"])
            seen += [each["text"] for each in read["events"]]
        assert seen == ["two"] and read["status"] == "completed"
        whole = await talk.call("read", run=name, after=0)
        assert [each["text"] for each in whole["events"]] == ["one", "two"]
