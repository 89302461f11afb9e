"""The official Python SDK of the Agent Client Protocol as an editor, with the installed `treadle acp` behind it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp

from tests.installed import TREADLE
from tests.scripts import calls, says

WRITE = calls(
    "write_file",
    {"file_path": "made.txt", "content": "hello\n"},
    thinking="A file is needed.",
    text="I will write.",
    usage={"input": 30, "output": 5, "cache_read": 7},
) + says("It is done.", times="always", usage={"input": 3, "output": 2})


class Editor:
    """What the SDK calls: it chooses the option that it was told to choose, and keeps all updates."""

    def __init__(self, choice: str = "allow_once") -> None:
        self.choice = choice
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, Any]] = []
        self.changed = asyncio.Event()

    def on_connect(self, connection: Any) -> None:
        pass

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append((tool_call, options))
        chosen = next(option.option_id for option in options if option.kind == self.choice)
        return acp.schema.RequestPermissionResponse(
            outcome=acp.schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.changed.set()

    def texts(self, kind: type | None = None) -> str:
        return "".join(update.content.text for update in self.of(kind or acp.schema.AgentMessageChunk))

    def of(self, kind: type) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]

    async def until(self, met: Any) -> None:
        while not met():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)


@asynccontextmanager
async def editor(work: Path, script: str, *more: str, choice: str = "allow_once") -> AsyncIterator[tuple[Any, Editor]]:
    (work / "model.toml").write_text(script)
    client: Any = Editor(choice)
    arguments = ["acp", "--model", f"scripted:{work / 'model.toml'}", *more]
    async with acp.spawn_agent_process(client, TREADLE, *arguments, cwd=work, env=dict(os.environ)) as (agent, process):
        greeting = await asyncio.wait_for(agent.initialize(protocol_version=acp.PROTOCOL_VERSION), 60)
        assert greeting.protocol_version == acp.PROTOCOL_VERSION and greeting.agent_info.name == "treadle"
        yield agent, client
    assert process.returncode == 0


def said(text: str) -> list[Any]:
    return [acp.text_block(text)]


async def test_an_allowed_write_comes_with_its_diff_and_ends_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_text("old\n")
    read = calls("read_file", {"file_path": "made.txt"}, usage={"input": 10, "output": 1})
    async with editor(tmp_path, read + WRITE) as (agent, client):
        opened = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        answer = await asyncio.wait_for(agent.prompt(session_id=opened.session_id, prompt=said("write")), 60)
        await client.until(lambda: "It is done." in client.texts())
    assert answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens == 10 + 33 and answer.usage.cached_read_tokens == 7
    assert (tmp_path / "made.txt").read_text() == "hello\n"
    call, options = client.asked[0]
    diff = next(item for item in call.content if item.type == "diff")
    assert (diff.path, diff.old_text, diff.new_text) == (str(tmp_path / "made.txt"), "old\n", "hello\n")
    assert call.kind == "edit" and {option.kind for option in options} == {"allow_once", "allow_always", "reject_once"}
    assert client.texts(acp.schema.AgentThoughtChunk) == "A file is needed."
    assert client.texts() == "I will write.It is done."
    shown = [update.status for update in client.updates if getattr(update, "tool_call_id", None) == call.tool_call_id]
    assert shown == ["pending", "in_progress", "completed"]
    usage = client.of(acp.schema.UsageUpdate)[-1]
    assert usage.used == 5 and usage.size > 0


async def test_a_session_is_listed_and_loaded_with_its_past(tmp_path: Path) -> None:
    async with editor(tmp_path, WRITE) as (agent, client):
        opened = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        await asyncio.wait_for(agent.prompt(session_id=opened.session_id, prompt=said("write it down")), 60)
    async with editor(tmp_path, WRITE) as (agent, client):
        listed = await agent.list_sessions(cwd=str(tmp_path))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(opened.session_id, "write it down")]
        loaded = await agent.load_session(cwd=str(tmp_path), session_id=opened.session_id, mcp_servers=[])
        assert loaded.modes.current_mode_id == "suggest"
        assert client.texts(acp.schema.UserMessageChunk) == "write it down"
        assert client.texts() == "I will write.It is done."
        assert [update.status for update in client.of(acp.schema.ToolCallProgress)] == ["completed"]
        answer = await asyncio.wait_for(agent.prompt(session_id=opened.session_id, prompt=said("more")), 60)
        assert answer.stop_reason == "end_turn"
