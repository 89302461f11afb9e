"""The door against scripted sessions, over a stream in memory. The official SDK drives it in tests/e2e/test_acp.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from tests.streams import pair
from treadle.doors.acp.door import AcpDoor
from treadle.errors import AuthFailed, NotFound
from treadle.events import Asked, ImageFile, TextDelta, ToolEnded, Usage
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.session import (
    AgentInfo,
    Change,
    ModelMenu,
    OfferedModel,
    Reasoning,
    SessionSpec,
    StoredSession,
    Toolset,
)
from treadle.sessions.session import Turn
from treadle.wire.acp.connection import Connection
from treadle.wire.common.rpc import RpcCall, RpcNotice


class Keeper(ScriptedAgent):
    """A scripted agent that can resume and list."""

    async def probe(self) -> AgentInfo:
        return AgentInfo(name="keeper", capabilities={"resume": "native", "fork": "emulated", "images": "native"})

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        return [StoredSession(id=f"s{number}", cwd=cwd or "/", updated=60.0 * number) for number in range(150)]


class Unable(Keeper):
    """A list of what cannot be resumed is of no use."""

    async def probe(self) -> AgentInfo:
        return AgentInfo(name="unable")


class Editor:
    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.choice: Any = "once"
        self.warnings: list[str] = []
        self.leave: Any = None
        self.gone: asyncio.Task[int]

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.rpc.call(method, params), 60)

    def texts(self) -> str:
        kinds = [update for update in self.updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(update["content"]["text"] for update in kinds)


@asynccontextmanager
async def opened(agent: ScriptedAgent, cwd: Path, **spec: Any) -> AsyncIterator[Editor]:
    ours, theirs = pair()
    link = Link(ours, Connection("client"))
    editor: Editor

    async def answer(call: RpcCall) -> Any:
        editor.asked.append(call.params)
        if editor.choice is None:
            await asyncio.Event().wait()
        return {"outcome": {"outcome": "selected", "optionId": editor.choice}}

    def notice(note: RpcNotice) -> None:
        editor.updates.append(note.params["update"])

    rpc = Rpc(link.send, answer=answer, notice=notice)
    editor = Editor(rpc)

    async def read() -> None:
        async for messages in link.batches():
            rpc.take(messages)

    base = SessionSpec(cwd=str(cwd), answers=True, **spec)
    editor.gone = asyncio.create_task(AcpDoor(agent, theirs, base=base, warn=editor.warnings.append).run())
    editor.leave = ours.close_write
    reading = asyncio.create_task(read())
    try:
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        yield editor
    finally:
        ours.close_write()
        assert await asyncio.wait_for(editor.gone, 60) == 0
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await rpc.close()


async def new(editor: Editor, cwd: Path) -> str:
    return str((await editor.call("session/new", cwd=str(cwd), mcpServers=[]))["sessionId"])


def said(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


async def test_a_turn_streams_and_ends_with_its_usage(tmp_path: Path) -> None:
    agent = ScriptedAgent([TextDelta(text="he"), TextDelta(text="llo"), Usage(input_tokens=3, output_tokens=2)])
    async with opened(agent, tmp_path) as editor:
        session = await new(editor, tmp_path)
        result = await editor.call("session/prompt", sessionId=session, prompt=said("hi"))
    assert editor.texts() == "hello" and result["stopReason"] == "end_turn"
    assert result["usage"]["totalTokens"] == 5
    assert agent.sessions[0].closed and agent.sessions[0].spec.answers


async def test_the_editors_mcp_servers_are_those_of_the_session(tmp_path: Path) -> None:
    agent = ScriptedAgent([TextDelta(text="hello")])
    notes = {"name": "notes", "command": "notes", "args": ["-v"], "env": [{"name": "KEY", "value": "k"}]}
    async with opened(agent, tmp_path, tools=Toolset(servers={"own": {"command": "own"}})) as editor:
        await editor.call("session/new", cwd=str(tmp_path), mcpServers=[notes])
    servers = agent.sessions[0].spec.tools.servers
    assert servers == {"own": {"command": "own"}, "notes": {"command": "notes", "args": ["-v"], "env": {"KEY": "k"}}}


async def test_usage_counts_over_the_session(tmp_path: Path) -> None:
    step = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=4, reasoning_tokens=1)
    async with opened(ScriptedAgent([step], [step]), tmp_path) as editor:
        session = await new(editor, tmp_path)
        await editor.call("session/prompt", sessionId=session, prompt=said("hi"))
        result = await editor.call("session/prompt", sessionId=session, prompt=said("again"))
    assert result["usage"] == {
        "totalTokens": 18,
        "inputTokens": 6,
        "outputTokens": 4,
        "thoughtTokens": 2,
        "cachedReadTokens": 8,
        "cachedWriteTokens": 0,
    }


async def test_the_mode_of_a_session_is_that_of_the_command_line_or_asks(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with opened(agent, tmp_path) as editor:
        await new(editor, tmp_path)
    async with opened(agent, tmp_path, mode="plan") as editor:
        await editor.call("session/new", cwd=str(tmp_path), additionalDirectories=["/usr"])
    assert [session.spec.mode for session in agent.sessions] == ["suggest", "plan"]
    assert agent.sessions[1].spec.add_dirs == ("/usr",)


async def test_a_question_waits_for_the_editor(tmp_path: Path) -> None:
    asked = Asked(request="r1", kind="permission", text="may I?", name="bash", call="c1")
    agent = ScriptedAgent([asked, TextDelta(text="done")])
    async with opened(agent, tmp_path) as editor:
        session = await new(editor, tmp_path)
        await editor.call("session/prompt", sessionId=session, prompt=said("hi"))
    assert editor.asked[0]["toolCall"]["toolCallId"] == "c1" and editor.texts() == "done"


async def test_cancel_ends_a_turn_that_waits_for_an_answer(tmp_path: Path) -> None:
    agent = ScriptedAgent([Asked(request="r1", kind="permission", text="may I?", name="bash", call="c1")])
    async with opened(agent, tmp_path) as editor:
        editor.choice = None
        session = await new(editor, tmp_path)
        prompt = asyncio.create_task(editor.call("session/prompt", sessionId=session, prompt=said("hi")))
        while not editor.asked:
            await asyncio.sleep(0)
        await editor.rpc.tell("session/cancel", {"sessionId": session})
        assert (await prompt)["stopReason"] == "cancelled"


async def test_an_editor_that_leaves_in_mid_turn_leaves_nothing_running(tmp_path: Path) -> None:
    agent = ScriptedAgent([TextDelta(text="a"), asyncio.Event()])
    async with opened(agent, tmp_path) as editor:
        session = await new(editor, tmp_path)
        prompt = asyncio.create_task(editor.call("session/prompt", sessionId=session, prompt=said("hi")))
        while not editor.texts():
            await asyncio.sleep(0)
        editor.leave()
        await asyncio.wait_for(asyncio.shield(editor.gone), 60)
        prompt.cancel()
        await asyncio.gather(prompt, return_exceptions=True)
    assert agent.sessions[0].closed


async def test_two_sessions_run_side_by_side(tmp_path: Path) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([gate, TextDelta(text="slow")], [TextDelta(text="quick")])
    async with opened(agent, tmp_path) as editor:
        first, second = await new(editor, tmp_path), await new(editor, tmp_path)
        slow = asyncio.create_task(editor.call("session/prompt", sessionId=first, prompt=said("hi")))
        await asyncio.sleep(0)
        await editor.call("session/prompt", sessionId=second, prompt=said("hi"))
        assert editor.texts() == "quick"
        gate.set()
        await slow


async def test_what_an_agent_can_do_is_what_is_announced(tmp_path: Path) -> None:
    async with opened(Keeper(), tmp_path) as editor:
        pass
    ours, theirs = pair()
    assert ours is not theirs and editor.gone.done()
    for agent, can in (
        (Keeper(), {"close", "list", "resume", "fork"}),
        (ScriptedAgent(), {"close"}),
        (Unable(), {"close"}),
    ):
        door = AcpDoor(agent, theirs, base=SessionSpec(cwd="/"), warn=print)
        told = await door._initialize({})
        assert set(told["agentCapabilities"]["sessionCapabilities"]) == can
        assert told["agentCapabilities"]["loadSession"] is ("resume" in can)
        prompts = told["agentCapabilities"]["promptCapabilities"]
        assert prompts == {"image": "resume" in can, "audio": False, "embeddedContext": True}
        assert told["agentCapabilities"]["mcpCapabilities"] == {"http": False, "sse": False}
        assert told["agentInfo"]["title"] == f"Treadle ({agent.name})" and told["authMethods"] == []


async def test_an_image_that_a_tool_showed_is_shown_in_the_editor(tmp_path: Path) -> None:
    (tmp_path / "i.png").write_bytes(b"hi")
    image = ImageFile(path=str(tmp_path / "i.png"), media_type="image/png", size=2)
    gone = ImageFile(path="/removed", media_type="image/png", size=2)
    shown = ToolEnded(call="c", name="read_file", result="an image", images=(image, gone))
    async with opened(ScriptedAgent([shown]), tmp_path) as editor:
        session = await new(editor, tmp_path)
        await editor.call("session/prompt", sessionId=session, prompt=said("look"))
    [update] = [one for one in editor.updates if one["sessionUpdate"] == "tool_call"]
    assert [item["content"] for item in update["content"]] == [
        {"type": "text", "text": "an image"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


async def test_a_long_list_of_sessions_comes_in_pages(tmp_path: Path) -> None:
    async with opened(Keeper(), tmp_path) as editor:
        first = await editor.call("session/list", cwd="/w")
        rest = await editor.call("session/list", cwd="/w", cursor=first["nextCursor"])
    assert len(first["sessions"]) == 100 and len(rest["sessions"]) == 50 and "nextCursor" not in rest
    assert first["sessions"][1] == {
        "sessionId": "s1",
        "cwd": "/w",
        "title": None,
        "updatedAt": "1970-01-01T00:01:00+00:00",
    }


async def test_a_session_is_loaded_resumed_forked_and_closed(tmp_path: Path) -> None:
    agent = Keeper()
    async with opened(agent, tmp_path) as editor:
        for method in ("session/load", "session/resume", "session/fork"):
            await editor.call(method, cwd=str(tmp_path), sessionId="old", mcpServers=[])
        assert [(one.spec.start.resume, one.spec.start.fork) for one in agent.sessions] == [
            ("old", False),
            ("old", False),
            ("old", True),
        ]
        await editor.call("session/close", sessionId=agent.sessions[2].id)
        assert agent.sessions[2].closed


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/prompt", {"sessionId": "none", "prompt": []}, -32002),
        ("session/prompt", {"prompt": []}, -32602),
        ("session/new", {"cwd": "relative"}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [{"command": "x", "args": [], "env": []}]}, -32602),
        ("session/new", {"cwd": "/", "additionalDirectories": ["/tmp", "relative"]}, -32602),
        ("session/list", {}, -32601),
        ("authenticate", {"methodId": "x"}, -32602),
        ("session/set_config_option", {"configId": "x"}, -32602),
    ],
)
async def test_a_call_that_cannot_be_served_says_why(tmp_path: Path, method: str, params: Any, code: int) -> None:
    async with opened(ScriptedAgent(), tmp_path) as editor:
        with pytest.raises(CallFailed) as failed:
            await editor.call(method, **params)
    assert failed.value.rpc_code == code


@pytest.mark.parametrize(("refuses", "code"), [(NotFound("no such"), -32002), (AuthFailed("sign in"), -32000)])
async def test_a_session_that_cannot_be_opened_says_why(tmp_path: Path, refuses: Exception, code: int) -> None:
    async with opened(ScriptedAgent(refuses=refuses), tmp_path) as editor:
        with pytest.raises(CallFailed) as failed:
            await new(editor, tmp_path)
    assert failed.value.rpc_code == code


async def test_a_method_nobody_knows_is_refused_and_the_talk_goes_on(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as editor:
        with pytest.raises(CallFailed) as failed:
            await editor.call("_other/thing")
        assert failed.value.rpc_code == -32601
        await new(editor, tmp_path)


async def test_the_model_and_the_mode_are_options_of_a_session(tmp_path: Path) -> None:
    agent = Chooser()
    async with opened(agent, tmp_path) as editor:
        told = await editor.call("session/new", cwd=str(tmp_path), mcpServers=[])
        session = told["sessionId"]
        assert values(told) == {"mode": "suggest", "model": "big", "effort": "default"}
        told = await editor.call("session/set_config_option", sessionId=session, configId="model", value="small")
        assert values(told)["model"] == "small"
        told = await editor.call("session/set_config_option", sessionId=session, configId="mode", value="plan")
        assert values(told)["mode"] == "plan"
        await editor.call("session/set_config_option", sessionId=session, configId="effort", value="low")
        for option, value in (("model", "none"), ("colour", "red"), ("mode", "none")):
            with pytest.raises(CallFailed):
                await editor.call("session/set_config_option", sessionId=session, configId=option, value=value)
    assert agent.changes == [Change(model="small"), Change(mode="plan"), Change(thinking=Reasoning(effort="low"))]
    assert {"sessionUpdate": "current_mode_update", "currentModeId": "plan"} in editor.updates


async def test_a_model_that_was_changed_in_a_turn_is_reported(tmp_path: Path) -> None:
    async def change(session: ScriptedSession, turn: Turn) -> None:
        await session.configure(Change(model="small"))

    async with opened(Chooser([change]), tmp_path) as editor:
        session = await new(editor, tmp_path)
        await editor.call("session/prompt", sessionId=session, prompt=said("/model small"))
        await editor.call("session/prompt", sessionId=session, prompt=said("hello"))
    reported = [update for update in editor.updates if update["sessionUpdate"] == "config_option_update"]
    assert [values(update)["model"] for update in reported] == ["small"]


def values(told: dict[str, Any]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in told["configOptions"]}


class ChoosingSession(ScriptedSession):
    def __init__(self, agent: "Chooser", spec: SessionSpec, turns: list[Any]) -> None:
        super().__init__(spec, turns)
        self._agent = agent
        self._info = msgspec.structs.replace(self._info, models=("big",))

    async def menu(self) -> ModelMenu:
        return ModelMenu(current=self.info.models[0], offered=(OfferedModel(id="big"), OfferedModel(id="small")))

    async def _configure(self, change: Change) -> None:
        self._agent.changes.append(change)
        if change.model is not None:
            self._info = msgspec.structs.replace(self._info, models=(change.model,))


class Chooser(ScriptedAgent):
    """Its sessions have two models."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.changes: list[Change] = []

    async def open(self, spec: SessionSpec) -> ChoosingSession:
        return ChoosingSession(self, spec, self._turns)
