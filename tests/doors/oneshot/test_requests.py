"""Control requests of a host: what a session that cannot do it is not asked, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent.native import NativeAgent
from treadle.doors.oneshot.adaptable import Adaptable, facts_of, judge_of
from treadle.doors.oneshot.requests import HostRequests
from treadle.doors.oneshot.run import OneShot
from treadle.errors import NotFound, TreadleError, Unsupported
from treadle.session import Change, Instructions, Reasoning, SessionSpec
from treadle.testing.sessions import ScriptedSession


class Configured(ScriptedSession):
    def __init__(self) -> None:
        super().__init__(SessionSpec.of(cwd="/"), [])
        self.changes: list[Change] = []

    async def configure(self, change: Change) -> None:
        self.changes.append(change)


class Sink:
    async def write(self, data: bytes) -> None: ...


class Asking:
    def __init__(self, *servers: str) -> None:
        self.session, self.warnings = Configured(), list[str]()
        runner = OneShot(self.session, "stream-json", out=Sink(), err=Sink())
        self.requests = HostRequests(
            *(self.session, runner, self._answer, self.warnings.append),
            hooks=None,
            servers=servers,
            instructions=Instructions(),
            greeting=None,
        )

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        message = request["message"]
        if request["server_name"] == "broken":
            return {}
        result = {"tools": [{"name": "add"}]} if message["method"] == "tools/list" else {}
        return {"mcp_response": {"result": result}}

    async def __call__(self, subtype: str, **fields: Any) -> dict[str, Any]:
        return await self.requests.obey({"subtype": subtype, **fields})


@pytest.mark.parametrize(
    ("tokens", "counted"), [(0, 0), (4000, 4000), (-1, None), (None, None), (True, None), ("9", None), (1.5, None)]
)
async def test_only_a_whole_number_is_a_number_of_tokens(tokens: Any, counted: int | None) -> None:
    ask = Asking()
    assert await ask("set_max_thinking_tokens", max_thinking_tokens=tokens) == {}
    assert ask.session.changes == [Change(thinking=Reasoning(tokens=counted))]


async def test_a_field_of_initialize_that_could_forbid_something_and_is_not_known_is_refused() -> None:
    ask = Asking()
    with pytest.raises(Unsupported, match="initialize asks for sandboxOnly"):
        await ask("initialize", sandboxOnly=True)
    assert "sandboxOnly" in ask.requests.refused
    assert (await Asking()("initialize", sandboxOnly=False))["hook_on_failure_supported"] is True


async def test_hooks_of_the_host_are_refused_where_they_cannot_be_run() -> None:
    ask = Asking()
    with pytest.raises(Unsupported, match="cannot run hooks"):
        await ask("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"]}]})
    assert ask.requests.refused


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"subtype": "teleport"}, NotFound),
        ({"subtype": "set_permission_mode", "mode": "wild"}, TreadleError),
        ({"subtype": "rewind_files", "user_message_id": "none"}, NotFound),
        ({"subtype": "get_context_usage"}, Unsupported),
        ({"subtype": "mcp_toggle", "serverName": "x"}, Unsupported),
        ({"subtype": "initialize", "sdkMcpServers": ["calc"]}, Unsupported),
        ({"subtype": "initialize", "systemPrompt": "be brief"}, Unsupported),
    ],
)
async def test_what_this_session_cannot_do_is_refused(request_: dict[str, Any], error: type[TreadleError]) -> None:
    with pytest.raises(error):
        await Asking().requests.obey(request_)


async def test_a_server_of_the_host_that_is_broken_is_named_and_the_session_goes_on() -> None:
    ask = Asking("broken")
    await ask("initialize")
    assert len(ask.warnings) == 1 and "'broken'" in ask.warnings[0]
    assert await ask("mcp_status") == {"mcpServers": [{"name": "broken", "status": "failed", "tools": []}]}


async def test_files_are_not_put_back_in_a_trial_or_by_a_session_that_has_no_copies() -> None:
    ask = Asking()
    ask.requests.turns["u"] = "t"
    with pytest.raises(Unsupported, match="dry run"):
        await ask("rewind_files", user_message_id="u", dry_run=True)
    with pytest.raises(Unsupported, match="cannot put files back"):
        await ask("rewind_files", user_message_id="u")


async def test_of_a_session_of_ours_more_is_known_than_of_a_driven_one(tmp_path: Path, state_home: Path) -> None:
    driven = Asking().session
    assert judge_of(driven) is None and facts_of(driven) == {"session_id": driven.id, "transcript_path": ""}
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "hi"\n')
    spec = SessionSpec.of(cwd=str(tmp_path), model=f"scripted:{tmp_path / 'script.toml'}")
    ours = await NativeAgent({}).open(spec)
    try:
        assert isinstance(ours, Adaptable) and judge_of(ours) == ours.judge
        facts = facts_of(ours)
        assert facts["session_id"] == ours.id and facts == ours.hook_facts() and "permission_mode" in facts
    finally:
        await ours.close()
