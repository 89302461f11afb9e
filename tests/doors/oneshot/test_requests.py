"""Control requests of a host: what a session that cannot do it is not asked, and what is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.stand_ins.sessions import ScriptedSession
from treadle.agent.native import NativeAgent
from treadle.agent.toolbox import ServersChanged
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.hosting import Adaptable, facts_of, judge_of
from treadle.doors.oneshot.input import HostRequests
from treadle.doors.oneshot.run import OneShot
from treadle.errors import NotFound, TreadleError, Unsupported
from treadle.session import Change, Instructions, Reasoning, SessionSpec


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


async def test_what_another_request_is_refused_for_does_not_end_the_refusal_of_initialize() -> None:
    ask = Asking()
    for subtype, fields in (("initialize", {"plugins": ["x"]}), ("rename_session", {"session_id": "x", "title": "t"})):
        with pytest.raises(Unsupported):
            await ask(subtype, **fields)
    assert "plugins" in ask.requests.refused


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
        ({"subtype": "initialize", "toolAliases": {"Bash": "mcp__x__bash"}}, Unsupported),
        ({"subtype": "rename_session", "session_id": "other", "title": "t"}, Unsupported),
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


class Adapted(Configured):
    """A session that can be told more, and keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []


def noted(name: str) -> Any:
    def later(self: Adapted, *args: Any, **more: Any) -> Any:
        self.told.append((name, *args, *more.values()))
        if name == "adapt":
            return None
        if name == "set_servers":
            return done(ServersChanged(added=("new",), removed=("gone",), errors={"bad": "why"}))
        if name == "context_parts":
            return [("system", 30), ("tools", 20)]
        return ["a.txt"] if name == "restore_files" else done(None)

    return later


for _name in ("add_tools", *(name for name in vars(Adaptable) if not name.startswith("_"))):
    setattr(Adapted, _name, noted(_name))


async def done(value: Any) -> Any:
    return value


class AskingMore(Asking):
    def __init__(self, *servers: str, hooks: HostHooks | None = None, greeting: Any = None) -> None:
        self.session, self.warnings = Adapted(), list[str]()
        self.runner = OneShot(self.session, "stream-json", out=Sink(), err=Sink())
        self.requests = HostRequests(
            *(self.session, self.runner, self._answer, self.warnings.append),
            hooks=hooks,
            servers=servers,
            instructions=Instructions(),
            greeting=greeting,
        )

    @property
    def told(self) -> list[Any]:
        assert isinstance(self.session, Adapted)
        return [each for each in self.session.told if each[0] != "add_tools"]


async def test_servers_are_added_once_and_those_of_the_hosts_process_apart() -> None:
    ask, outside = AskingMore(), {"command": "x"}
    inside = {"type": "sdk"}
    first = await ask("mcp_set_servers", servers={"out": outside, "calc": inside, "broken": inside})
    assert first == {
        "added": ["new", "calc"],
        "removed": ["gone"],
        "errors": {"bad": "why", "broken": "it did not answer"},
    }
    assert ask.told == [("set_servers", {"out": outside}), ("switch_server", "calc", True)]
    assert len(ask.warnings) == 1
    states = {one["name"]: one["status"] for one in (await ask("mcp_status"))["mcpServers"]}
    assert states == {"calc": "connected", "broken": "failed"}
    again = await ask("mcp_set_servers", servers={"calc": inside})
    assert (again["added"], again["removed"]) == (["new"], ["gone", "broken"])
    last = await ask("mcp_set_servers", servers={})
    assert last["removed"] == ["gone", "calc"]
    assert ask.told[2:] == [("set_servers", {}), ("set_servers", {}), ("switch_server", "calc", False)]
    for wrong in ([], {"x": 7}):
        with pytest.raises(TreadleError, match="servers must be an object with an object for each name"):
            await ask("mcp_set_servers", servers=wrong)


async def test_hooks_that_are_not_called_are_named_and_without_any_none_are_registered() -> None:
    hooks = HostHooks("/")
    ask = AskingMore(hooks=hooks)
    answer = await ask("initialize", hooks={"Setup": [{"hookCallbackIds": ["h"]}]})
    assert answer["hooks_applied"] is True and answer["hook_on_failure_supported"] is True
    assert ask.warnings == ["hooks of the event Setup are not called here"]
    assert "hooks_applied" not in await ask("initialize") and hooks._hooks.keys() == {"Setup"}


async def test_instructions_are_told_unless_the_session_was_opened_with_them() -> None:
    greeting = {"subtype": "initialize", "systemPrompt": "be brief"}
    ask = AskingMore(greeting=greeting)
    await ask.requests.obey(greeting)
    assert ask.told == []
    await ask.requests.obey(dict(greeting))
    ((name, instructions, subagents),) = ask.told
    assert (name, instructions.system, subagents) == ("adapt", "be brief", ())
    await ask("initialize", title="the title", forwardSubagentText=True, promptSuggestions=True)
    assert ask.warnings == [
        "initialize: promptSuggestions is not used here",
        "initialize: forwardSubagentText is not used here without --verbose",
    ]


async def test_what_fills_the_context_and_which_files_are_put_back() -> None:
    ask = AskingMore()
    found = await ask("get_context_usage")
    assert (found["totalTokens"], found["maxTokens"], found["percentage"]) == (50, 0, 0.0)
    assert found["categories"][0] == {"name": "system", "tokens": 30, "color": "", "kind": "used"}
    info = ask.session._info
    more = {"context_window": 400, "tools": ("bash", "mcp__calc__add"), "subagents": ("Explore",), "models": ("a", "b")}
    ask.session._info = msgspec.structs.replace(info, **more)
    found = await ask("get_context_usage")
    assert (found["maxTokens"], found["percentage"], found["model"]) == (400, 12.5, "a, b")
    assert (found["mcpTools"], found["agents"]) == ([{"name": "mcp__calc__add"}], [{"agentType": "Explore"}])
    assert (found["isAutoCompactEnabled"], found["rawMaxTokens"]) == (True, 400)
    await ask("initialize", sdkMcpServers=["calc"])
    assert await ask("mcp_status") == {
        "mcpServers": [{"name": "calc", "status": "connected", "tools": [{"name": "add"}]}]
    }
    ask.requests.turns["u"] = "t"
    assert await ask("rewind_files", user_message_id="u") == {"canRewind": True, "filesChanged": ["a.txt"]}
    for more, on in (({}, True), ({"enabled": None}, True), ({"enabled": False}, False)):  # type: ignore[assignment]
        assert await ask("mcp_toggle", serverName="calc", **more) == {} and ask.told[-1] == (
            "switch_server",
            "calc",
            on,
        )
    assert (await ask("get_settings"))["applied"] == {"model": "a, b"}
    used = (await ask("get_usage"))["session"]
    assert (used["total_api_duration_ms"], used["total_duration_ms"], used["model_usage"]) == (0, 0, {})
    assert await ask("cancel_async_message", message_uuid="u") == {"cancelled": False}
    assert await ask("interrupt") == {"still_queued": []} and ask.runner.interrupted
    assert (await ask("set_model", model=None))["model"] == "a, b" and ask.session.changes[-1] == Change(model=None)
    assert await ask("set_permission_mode", mode="plan") == {"mode": "plan"}
