"""A thread's turns: what their client is sent, asked, and may change."""

import asyncio
from pathlib import Path

import pytest

from tests.doors.codex.callers import opened, said
from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from treadle.errors import ProviderError
from treadle.events import Asked, TextDelta, ToolStarted, Usage, Warned
from treadle.io.rpc import CallFailed
from treadle.session import Change, ModelMenu, OfferedModel, Prompt, SessionSpec

RUN = Asked(request="r", kind="permission", text="", name="bash", call="c", command="ls", tool_kind="execute")


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
    assert shown["items"][0]["content"] == said("hi") and shown["status"] == "completed"
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
