"""What only Claude Code does, from recordings of the real program (tests/live/test_claude.py makes them)."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.pixels import png
from tests.drivers.scenarios import DONE, PATIENCE, Scenario, play
from tests.drivers.talks import SAYS, WAITS, as_expected, heard, talked, written
from tests.drivers.test_session import replayed
from tests.waiting import until
from treadle.drivers.card import cards
from treadle.drivers.claude.driver import ClaudeSession
from treadle.errors import ConfigError
from treadle.events import Asked, Failed, TaskChanged, TextDelta, ToolStarted, TurnEnded, TurnStarted, Usage, Warned
from treadle.session import (
    Answer,
    Change,
    Instructions,
    Prompt,
    Reasoning,
    Session,
    SessionSpec,
    Subagent,
    Toolset,
)

CLAUDE = cards()["claude"]


async def opened(recording: str, cwd: Path, **more: Any) -> Session:
    return await replayed(CLAUDE, recording).open(SessionSpec.of(cwd=str(cwd), **more))


async def follow(session: Session, answer: Answer | None = None, turns: int = 1) -> list[Any]:
    events: list[Any] = []
    reader = session.events()
    await session.prompt(Prompt(text="begin"))
    async with asyncio.timeout(PATIENCE):
        async for event in reader:
            events.append(event)
            if isinstance(event, Asked) and answer is not None:
                await session.answer(event.request, answer)
            turns -= isinstance(event, TurnEnded)
            if not turns:
                break
        await session.close()
    return events


async def test_a_background_task_wakes_it_for_a_turn_of_its_own(tmp_path: Path) -> None:
    events = await follow(await opened("background", tmp_path), turns=2)
    assert [event.source for event in events if isinstance(event, TurnStarted)] == ["user", "task"]
    assert [event.text for event in events if isinstance(event, TurnEnded)] == [DONE, DONE]
    assert [event.change for event in events if isinstance(event, TaskChanged)] == ["started", "completed"]


async def test_its_question_goes_to_the_person(tmp_path: Path) -> None:
    session = await opened("question", tmp_path, answers=True)
    events = await follow(session, Answer(decision="allow", text="Blue"))
    (asked,) = [event for event in events if isinstance(event, Asked)]
    assert (asked.kind, asked.text, asked.options) == ("question", "Which colour?", ("Red", "Blue"))


async def test_an_answer_may_change_what_runs(tmp_path: Path) -> None:
    session = await opened("changed", tmp_path, answers=True, mode="suggest")
    events = await follow(session, Answer(decision="allow", changed_args={"command": "touch changed.txt"}))
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    assert started.command == "touch changed.txt"


async def test_the_model_and_the_mode_change_during_a_session(tmp_path: Path) -> None:
    session = await opened("configured", tmp_path, mode="full-auto")
    assert session._totals == {}, "what a new session reports is all new"  # type: ignore[attr-defined]
    await session.configure(Change(model="sonnet", mode="plan"))
    assert session.info.mode == "plan"
    events = await follow(session)
    assert not [event for event in events if isinstance(event, ToolStarted)], "in plan mode nothing runs"


async def test_what_is_added_too_late_for_a_step_makes_the_turn_go_on(tmp_path: Path) -> None:
    session = await opened("steered", tmp_path)
    reader = session.events()
    turn = await session.prompt(Prompt(text="begin"))
    ends, said = [], 0
    async with asyncio.timeout(PATIENCE):
        async for event in reader:
            said += isinstance(event, TextDelta)
            if isinstance(event, TextDelta) and said == 1:
                assert await session.steer(turn, "and more")
            if isinstance(event, TurnEnded):
                ends.append(event.text)
                break
        await session.close()
    assert ends == [DONE]


async def test_its_slash_commands_are_listed_and_run_as_turns(tmp_path: Path) -> None:
    session = await opened("text", tmp_path)
    name = session.commands()[0].name
    assert await session.command("no-such-command", "") is None
    ran = await session.command(name, "x")
    assert ran is not None and ran.turn is not None
    async with asyncio.timeout(PATIENCE):
        async for event in session.events():
            if isinstance(event, TurnStarted):
                assert event.prompt == f"/{name} x"
            if isinstance(event, TurnEnded):
                break
        await session.close()


async def test_the_id_of_a_new_session_is_a_uuid(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="UUID"):
        await opened("text", tmp_path, session_id="mine")


def asks(id: str, subtype: str, **fields: Any) -> list[tuple[str, Any]]:
    """It asks, and goes on when it has the answer."""
    request = {"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}}
    return [(SAYS, request), (WAITS, {"type": "control_response", "response": {"request_id": id}})]


def is_told(number: int, subtype: str, answer: Any) -> list[tuple[str, Any]]:
    id = f"treadle-{number}"
    response = {"subtype": "success", "request_id": id, "response": answer}
    return [
        (WAITS, {"type": "control_request", "request_id": id, "request": {"subtype": subtype}}),
        (SAYS, {"type": "control_response", "response": response}),
    ]


def says(kind: str, **fields: Any) -> tuple[str, Any]:
    return SAYS, {"type": kind, **fields}


def system(subtype: str, **fields: Any) -> tuple[str, Any]:
    return says("system", subtype=subtype, **fields)


def streams(kind: str, parent: str | None = None, **fields: Any) -> tuple[str, Any]:
    return says("stream_event", event={"type": kind, **fields}, parent_tool_use_id=parent)


def piece(kind: str, text: str, parent: str | None = None) -> tuple[str, Any]:
    return streams("content_block_delta", parent, delta={"type": f"{kind}_delta", kind: text})


def block(parent: str | None = None, **fields: Any) -> tuple[str, Any]:
    return says("assistant", message={"model": "opus", "content": [fields]}, parent_tool_use_id=parent)


def uses(id: str, name: str, parent: str | None = None, **args: Any) -> tuple[str, Any]:
    return block(parent, type="tool_use", id=id, name=name, input=args)


def result(id: str, text: str, *, failed: bool = False, **more: Any) -> tuple[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}, "odd", {"type": "text"}]
    return says("user", message={"content": content}, **more)


GREETED = {
    "commands": [{"name": "look", "description": "Looks.", "argumentHint": "WHERE"}, "odd"],
    "account": {"tokenSource": "oauth"},
    "models": [{"value": "opus", "resolvedModel": "opus-5", "displayName": "Opus"}, "odd"],
    "agents": [{"name": "owl"}, "odd"],
    "claude_code_version": "2.1.326",
}
BEGUN = [(WAITS, {"type": "user", "uuid": "P"}), says("user", uuid="P", isReplay=True, message={"content": "go"})]
USED = {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}
EXPECTED = Path(__file__).parent / "expected"
TALK = Scenario("talk", ("go",), lambda played: None, mode="suggest")


def ended(**fields: Any) -> tuple[str, Any]:
    return says("result", **{"subtype": "success", "is_error": False, "session_id": "S2", **fields})


async def test_what_its_records_mean(tmp_path: Path) -> None:
    since = {"opus": {"inputTokens": 10, "outputTokens": 3, "costUSD": 0.5}}
    window = {"opus": {"contextWindow": 1000}}
    servers = [{"name": "a", "status": "connected"}, {"name": "b", "status": "needs-auth"}, "odd"]
    patch = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]
    changed = {"filePath": "/w/a", "originalFile": "a\n", "structuredPatch": patch}
    played, events, told = await talked(
        CLAUDE,
        tmp_path,
        SessionSpec.of(cwd=str(tmp_path), mode="suggest"),
        TALK,
        *is_told(1, "initialize", GREETED),
        *BEGUN[:1],
        ended(result="of a turn of its own, while our prompt waits", session_id="S1"),
        *BEGUN[1:],
        system("init", session_id="S", model="opus", tools=["Bash"], mcp_servers=servers, apiKeySource="KEY"),
        streams("message_start", message={"model": "opus", "usage": USED}),
        piece("thinking", "hm"),
        piece("thinking", ""),
        piece("text", "Hel"),
        piece("text", "lo"),
        block(type="thinking", thinking="hm"),
        block(type="thinking", thinking=""),
        block(type="text", text="Hello"),
        block(type="text", text="Whole"),
        streams("message_delta", usage={"output_tokens": 7}),
        uses("c1", "Bash", command="ls"),
        result("c1", "a"),
        uses("c2", "Bash", command="false"),
        result("c2", "Exit code 3\nno", failed=True),
        uses("c3", "Edit", file_path="/w/a"),
        result("c3", "ok", tool_use_result=changed),
        uses("c4", "Edit", file_path="/w/a"),
        result("c4", "no", failed=True, tool_use_result=changed),
        result("c5", "of a call that was not announced"),
        uses("c6", "Bash", command="sudo"),
        system("permission_denied", tool_use_id="c6", tool_name="Bash", message="not that"),
        result("c6", "denied", failed=True),
        system("task_started", task_id="t1", task_type="local_agent", tool_use_id="c7", description="look"),
        streams("message_start", "c7", message={"model": "haiku", "usage": USED}),
        piece("text", "Inside", "c7"),
        block("c7", type="text", text="Inside"),
        uses("c8", "Read", "c7", file_path="/w/a"),
        result("c8", "a", parent_tool_use_id="c7"),
        system("task_notification", task_id="t1", status="completed", summary="seen"),
        system("api_retry", attempt=2, retry_delay_ms=500.5, error="busy", error_status=529),
        system("api_retry", attempt=3),
        system("compact_boundary", compact_metadata={"pre_tokens": 90, "post_tokens": 9}),
        system("compact_boundary", compact_metadata={"pre_tokens": 90}),
        system("compact_boundary"),
        system("informational", level="warning", content="take care"),
        system("informational", level="info", content="nothing"),
        says("command_lifecycle", command_uuid="other", state="started"),
        says("assistant", message={"content": [{"type": "text"}, {"type": "text", "text": "Beside it."}]}),
        block(type="text", text="The end."),
        ended(result="The end.", model_usage_since_last_result=since, modelUsage=window, stop_reason="end_turn"),
    )
    assert as_expected(events, EXPECTED / "meant.txt")
    info = played.session.info
    assert (info.version, info.models, info.tools, info.key_source) == ("2.1.326", ("opus",), ("Bash",), "KEY")
    assert (info.mcp_servers, info.subagents) == ({"a": "connected", "b": "failed"}, ("owl",))
    assert (info.context_used, info.context_window, played.session.id) == (20, 1000, "S2")
    assert [(one.name, one.description, one.arguments) for one in played.session.commands()] == [
        ("look", "Looks.", "WHERE")
    ]
    assert played.ends[0].iterations == 1 and played.ends[0].text == "The end."
    prompt = told[1]
    assert prompt["message"] == {"role": "user", "content": "go"} and "client_composed" not in prompt


async def test_a_usage_limit_says_how_long_it_lasts(tmp_path: Path) -> None:
    until = int(time.time()) + 3 * 86400
    warned, limited = {"status": "allowed_warning", "resetsAt": 1}, {"status": "rejected", "resetsAt": until}
    played, _, _ = await talked(
        CLAUDE,
        tmp_path,
        SessionSpec(cwd=str(tmp_path)),
        TALK,
        *is_told(1, "initialize", GREETED),
        *BEGUN,
        *[says("rate_limit_event", rate_limit_info=info) for info in (limited, warned)],
        ended(is_error=True, api_error_status=429, result="You've hit your limit"),
    )
    (told,) = played.of(Failed)
    assert told.error.code == "rate_limited" and abs(told.error.retry_after_ms / 1000 + time.time() - until) < 600


async def test_it_is_told_what_the_session_is_to_be_and_what_changes(tmp_path: Path) -> None:
    servers = {"notes": {"command": "notes"}}
    spec = SessionSpec(
        cwd=str(tmp_path),
        model="opus",
        instructions=Instructions(system="Be brief.", append="Be kind.", skills=("look",)),
        tools=Toolset(servers=servers),
        subagents=(Subagent(name="owl", description="d", prompt="p"),),
    )
    talk = [
        *is_told(1, "initialize", "odd"),
        *is_told(2, "mcp_set_servers", {"errors": {"notes": "no such program"}}),
        *is_told(3, "set_model", None),
        *is_told(4, "set_permission_mode", None),
        *is_told(5, "apply_flag_settings", None),
        *is_told(6, "set_permission_mode", None),
        (WAITS, {"type": "user", "uuid": "P"}),
    ]
    noted = tmp_path / "noted"
    session = await replayed(CLAUDE, written(tmp_path / "talk.jsonl", *talk), noted=noted).open(spec)
    assert isinstance(session, ClaudeSession)
    reader = session.events()
    try:
        assert session.info.models == ("opus",) and session.info.version == "" and await session.account() == ""
        await session.configure(Change(model="haiku", mode="plan", thinking=Reasoning(effort="low")))
        assert session.info.models == ("haiku",) and session.info.mode == "plan"
        assert (await session.menu()).current == "haiku" and session.history() == []
        await session.configure(Change(mode="suggest"))
        await session.prompt(Prompt(text=" ", images=(png(),), verbatim=True))
        await until(lambda: '"user"' in noted.read_text())
    finally:
        await session.close()
    asked = [line["request"] for line in heard(noted) if line["type"] == "control_request"]
    hooks = {"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["before"], "timeout": 600}]}
    agents = {"owl": {"description": "d", "prompt": "p"}}
    given = {"systemPrompt": "Be brief.", "appendSystemPrompt": "Be kind.", "agents": agents, "skills": ["look"]}
    assert asked[:6] == [
        {"subtype": "initialize", "hooks": hooks, **given},
        {"subtype": "mcp_set_servers", "servers": {"notes": {"command": "notes", "type": "stdio"}}},
        {"subtype": "set_model", "model": "haiku"},
        {"subtype": "set_permission_mode", "mode": "plan"},
        {"subtype": "apply_flag_settings", "settings": {"effortLevel": "low"}},
        {"subtype": "set_permission_mode", "mode": "default"},
    ]
    (prompt,) = [line for line in heard(noted) if line["type"] == "user"]
    assert [part["type"] for part in prompt["message"]["content"]] == ["image"] and prompt["client_composed"] is True
    warned = [event.message for event in reader.ready() if isinstance(event, Warned) and event.code == "not_used"]
    assert warned == ["the MCP server notes cannot be used: no such program"]


@pytest.mark.parametrize(
    ("account", "signed_in"),
    [({"apiKeySource": "none"}, ""), ({"apiKeySource": "KEY", "tokenSource": "x"}, "KEY"), (7, "")],
)
async def test_how_it_is_signed_in_is_what_it_says(tmp_path: Path, account: Any, signed_in: str) -> None:
    talk = is_told(1, "initialize", {"account": account, "models": GREETED["models"]})
    session = await replayed(CLAUDE, written(tmp_path / "talk.jsonl", *talk)).open(SessionSpec.of(cwd=str(tmp_path)))
    assert isinstance(session, ClaudeSession)
    assert await session.account() == signed_in and session.info.models == ("opus-5",)
    await session.close()


async def test_what_was_used_counts_also_when_no_result_comes(tmp_path: Path) -> None:
    """It ends in the middle: what its calls reported is all that is known, and the cost is not."""
    calls = [
        streams("message_start", message={"model": "opus", "usage": USED}),
        streams("message_delta", usage={"output_tokens": 7}),
    ]
    calls += [streams("message_start", message={"usage": {"output_tokens": 0}}), streams("message_start", message={})]
    place = written(tmp_path / "talk.jsonl", *is_told(1, "initialize", {}), *BEGUN, *calls, says("keep_alive"))
    agent = replayed(CLAUDE, place, "--fault", "exit", "--after", str(len(calls) + 1))
    async with play(agent, TALK, tmp_path) as played:
        (used,) = played.of(Usage)
        assert (used.model, used.prompt_tokens, used.output_tokens, used.cost_usd) == ("opus", 13, 7, None)
        assert played.ends[0].outcome == "failed" and played.ends[0].iterations == 3
