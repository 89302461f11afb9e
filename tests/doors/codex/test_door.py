"""The app-server door against scripted sessions, over a stream in memory. Real clients are in tests/live."""

from pathlib import Path

import pytest

from tests.doors.codex.callers import opened, said
from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from treadle.errors import NotFound, ToolError
from treadle.events import TextDelta
from treadle.io.rpc import CallFailed
from treadle.session import AgentInfo, CommandInfo, CommandResult, SessionSpec, StoredSession


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


class Compacting(ScriptedSession):
    """Can compact its conversation, once."""

    compacted = 0

    def commands(self) -> list[CommandInfo]:
        return [CommandInfo(name="compact", description="Shorten it")]

    async def _command(self, name: str, args: str) -> CommandResult | None:
        self.compacted += 1
        if self.compacted > 1:
            raise ToolError("there is nothing to shorten")
        return CommandResult(message="done")


class Compacter(ScriptedAgent):
    async def open(self, spec: SessionSpec) -> ScriptedSession:
        self.made = Compacting(spec, [[TextDelta(text="x")]])
        return self.made


async def test_a_conversation_is_compacted_after_the_answer_and_what_goes_wrong_is_a_warning(tmp_path: Path) -> None:
    agent = Compacter()
    async with opened(agent, tmp_path) as client:
        thread = await client.thread(tmp_path)
        for _ in range(2):
            assert await client.call("thread/compact/start", threadId=thread) == {}
        told = await client.until("warning")
        assert (told["threadId"], told["message"]) == (thread, "there is nothing to shorten")
        assert agent.made.compacted == 2
        turn = await client.turn(thread, "hello", outputSchema=None)
        assert turn["status"] == "completed"
        for params, why in (
            ({"threadId": "none"}, "thread not found: none"),
            ({"threadId": ""}, "a threadId is needed"),
            ({}, "a threadId is needed"),
        ):
            with pytest.raises(CallFailed, match=why):
                await client.call("turn/interrupt", **params)
