"""A session with agents that do what agents do. The whole contract is in tests/drivers/test_session.py."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.acp.played import (
    answered,
    fails,
    greeting,
    heard,
    opening,
    returns,
    said,
    session,
    text,
    turn,
    update,
)
from treadle.drivers.acp.session import AcpSession
from treadle.errors import AuthFailed, ConfigError, NotFound, RemoteError, Unsupported, VersionMismatch
from treadle.events import (
    AnyEvent,
    Asked,
    CommandRun,
    FileChanged,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.session import Access, Answer, Change, Decision, Guards, Limits, Prompt, Rules
from treadle.sessions.session import run_turn

OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]
SHELL = {"toolCallId": "c1", "kind": "execute", "title": "touch made", "rawInput": {"command": "touch made"}}
ASKS = [said("session/request_permission", 7, sessionId="s1", options=OPTIONS, toolCall=SHELL), answered(7)]
CANCELLED = {"outcome": {"outcome": "cancelled"}}
ENDS = update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed")


async def events_of(opened: AcpSession, prompt: str = "go", answer: Answer | None = None) -> list[AnyEvent]:
    found = []
    async with asyncio.timeout(60):
        async for event in run_turn(opened, prompt):
            found.append(event)
            if isinstance(event, Asked) and answer is not None:
                await opened.answer(event.request, answer)
    return found


def of(events: list[AnyEvent], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_an_agent_nobody_knows_is_taken_at_its_word_and_that_is_said(tmp_path: Path) -> None:
    async with session(tmp_path, [*opening(), *turn(text("hello"))]) as opened:
        assert (opened.id, opened.info.version) == ("s1", "9.9")
        warned = [event for event in opened.events().ready() if isinstance(event, Warned)]
        assert "what it does not ask about is not judged" in warned[0].message
        events = await events_of(opened)
    assert isinstance(events[-1], TurnEnded) and (events[-1].outcome, events[-1].text) == ("completed", "hello")


async def test_instructions_come_before_the_first_prompt_only(tmp_path: Path) -> None:
    lines = [*opening(), *turn(text("one")), *turn(text("two"))]
    async with session(tmp_path, lines, system_prompt="Be kind.", append_system_prompt="Be brief.") as opened:
        codes = [event.code for event in opened.events().ready() if isinstance(event, Warned)]
        assert "emulated" in codes
        await events_of(opened)
        await events_of(opened)


async def test_a_permission_is_given_once_and_the_call_starts_then(tmp_path: Path) -> None:
    async with session(tmp_path, [*opening(), *turn(*ASKS, ENDS)], mode="suggest", answers=True) as opened:
        events = await events_of(opened, answer=Answer(decision="allow", scope="session"))
    kinds = [type(event).__name__ for event in events]
    assert kinds.index("Asked") < kinds.index("Answered") < kinds.index("ToolStarted") < kinds.index("ToolEnded")
    assert of(events, Asked)[0].command == "touch made"


async def test_what_was_allowed_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    lines = [*opening(), *turn(*ASKS, ENDS), *turn(*ASKS, ENDS)]
    async with session(tmp_path, lines, mode="suggest", answers=True) as opened:
        await events_of(opened, answer=Answer(decision="allow", scope="session"))
        assert of(await events_of(opened), Asked) == []


@pytest.mark.parametrize("card", ["acp", "gemini"])
async def test_a_rule_does_not_allow_what_only_a_title_says_unless_the_title_is_the_command(
    tmp_path: Path, card: str
) -> None:
    name = "gemini-cli" if card == "gemini" else "odd"
    call = {"toolCallId": "c1", "kind": "execute", "title": "git status"}
    asks = [said("session/request_permission", 7, sessionId="s1", options=OPTIONS, toolCall=call), answered(7)]
    lines = [*opening(name), *turn(*asks, ENDS)]
    rules = Rules(allow=("Bash(git status)",))
    async with session(tmp_path, lines, card, mode="suggest", rules=rules, answers=True) as opened:
        events = await events_of(opened, answer=Answer(decision="allow"))
    assert len(of(events, Asked)) == (0 if card == "gemini" else 1)


async def test_a_call_that_is_announced_and_not_asked_about_is_running_soon(tmp_path: Path) -> None:
    begun = update(sessionUpdate="tool_call", status="pending", **SHELL)
    lines = [
        *opening(),
        heard("session/prompt", "p"),
        begun,
        heard("session/cancel"),
        returns("p", {"stopReason": "cancelled"}),
    ]
    async with session(tmp_path, lines) as opened:
        reader = opened.events(after=-1)
        prompted = await opened.prompt(Prompt(text="go"))
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, ToolStarted):
                    break
            await opened.interrupt(prompted)
        ended = [event for event in reader.ready() if isinstance(event, ToolEnded | TurnEnded)]
    assert [getattr(event, "ok", event) for event in ended[:1]] == [False]
    assert isinstance(ended[-1], TurnEnded) and ended[-1].outcome == "interrupted"


async def test_a_question_that_is_open_when_the_turn_is_stopped_is_answered_as_cancelled(tmp_path: Path) -> None:
    lines = [
        *opening(),
        heard("session/prompt", "p"),
        ASKS[0],
        heard("session/cancel"),
        answered(7, CANCELLED),
        returns("p", {"stopReason": "cancelled"}),
    ]
    async with session(tmp_path, lines, mode="suggest", answers=True) as opened:
        reader = opened.events(after=-1)
        prompted = await opened.prompt(Prompt(text="go"))
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, Asked):
                    break
            await opened.interrupt(prompted)
        assert not opened.peer.gone, "it stopped by itself"


async def test_what_is_allowed_in_the_moment_of_the_stop_is_not_allowed_any_more(tmp_path: Path) -> None:
    lines = [*opening(), *turn(ASKS[0], answered(7, CANCELLED))]

    def judge(access: Access) -> Decision:
        opened._stopping.set()  # as an interrupt does that comes while this is judged
        return Decision(verdict="allow")

    async with session(tmp_path, lines, mode="full-auto", guards=Guards(judge=judge)) as opened:
        events = await events_of(opened)
    assert isinstance(events[-1], TurnEnded)


async def test_a_plan_to_approve_is_asked_as_a_plan(tmp_path: Path) -> None:
    call = {"toolCallId": "c1", "kind": "switch_mode", "title": "Ready to code?"}
    asks = [said("session/request_permission", 7, sessionId="s1", options=OPTIONS, toolCall=call), answered(7)]
    async with session(tmp_path, [*opening(), *turn(*asks)], answers=True) as opened:
        events = await events_of(opened, answer=Answer(decision="allow"))
    assert [(asked.kind, asked.text) for asked in of(events, Asked)] == [("plan", "Ready to code?")]


# Files and terminals of ours


async def test_files_are_read_and_written_through_us_under_the_rules(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    lines = [
        *opening(),
        *turn(
            *[said("fs/read_text_file", 1, sessionId="s1", path=str(work / "a.txt"), line=2, limit=1), answered(1)],
            *[
                said("fs/write_text_file", 2, sessionId="s1", path=str(work / "new/b.txt"), content="new\n"),
                answered(2),
            ],
            *[said("fs/write_text_file", 3, sessionId="s1", path=str(work / ".env"), content="x"), answered(3)],
        ),
    ]
    async with session(tmp_path, lines, mode="full-auto", rules=Rules(deny=("Write(.env*)",))) as opened:
        events = await events_of(opened)
    assert (work / "new/b.txt").read_text() == "new\n" and not (work / ".env").exists()
    [change] = of(events, FileChanged)
    assert (change.change, "+new" in change.diff) == ("added", True)
    assert [denied.by for denied in of(events, ToolDenied)] == ["rule"]


async def test_a_call_that_was_allowed_is_not_asked_for_again_when_it_uses_a_terminal(tmp_path: Path) -> None:
    command = said("terminal/create", 1, sessionId="s1", command="/bin/sh", args=["-c", "echo out; exit 3"])
    shown = update(
        sessionUpdate="tool_call_update", toolCallId="c1", content=[{"type": "terminal", "terminalId": "terminal-1"}]
    )
    lines = [
        *opening(),
        *turn(
            *ASKS,
            *[command, answered(1), shown],
            *[said("terminal/wait_for_exit", 2, sessionId="s1", terminalId="terminal-1"), answered(2)],
            *[said("terminal/release", 3, sessionId="s1", terminalId="terminal-1"), answered(3)],
            ENDS,
        ),
    ]
    async with session(tmp_path, lines, mode="suggest", answers=True) as opened:
        events = await events_of(opened, answer=Answer(decision="allow"))
    assert len(of(events, Asked)) == 1
    assert [(ran.exit_code, ran.output) for ran in of(events, CommandRun)] == [(3, "out\n")]
    assert "".join(one.text for one in of(events, ToolOutput)) == "out\n"
    assert [ended.result for ended in of(events, ToolEnded)] == ["out\n"]


async def test_what_nobody_knows_is_refused_at_once(tmp_path: Path) -> None:
    asked = [said("craft/drainMidTurnQueue", 4, sessionId="s1"), answered(4)]
    async with session(tmp_path, [*opening(), *turn(*asked, said("odd/notice"), text("on"))]) as opened:
        assert (await events_of(opened))[-1].outcome == "completed"  # type: ignore[union-attr]


# How it goes wrong


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([fails("p", -32000, "Authentication required")], "auth_failed"),
        ([fails("p", 401, "no")], "auth_failed"),
        ([fails("p", -32603, "Internal error", {"details": "429 too many"})], "rate_limited"),
        ([fails("p", -32603, "Internal error", {"details": "broken"})], "provider_error"),
        ([returns("p", {"stopReason": "refusal"})], "provider_error"),
        ([returns("p", {})], "remote_error"),
        ([returns("p", None)], "remote_error"),
    ],
)
async def test_a_turn_that_failed_says_how(tmp_path: Path, lines: list[Any], code: str) -> None:
    async with session(tmp_path, [*opening(), heard("session/prompt", "p"), *lines]) as opened:
        end = (await events_of(opened))[-1]
    assert isinstance(end, TurnEnded) and end.outcome == "failed" and end.error is not None and end.error.code == code


async def test_an_error_that_calls_itself_an_answer_is_an_error(tmp_path: Path) -> None:
    lines = [*opening("Copilot"), *turn(text("Info: retrying."), text("Error: failed (HTTP 401)."))]
    async with session(tmp_path, lines, "copilot") as opened:
        end = (await events_of(opened))[-1]
    assert isinstance(end, TurnEnded) and end.error is not None and end.error.code == "auth_failed"


@pytest.mark.parametrize("stop", ["max_tokens", "max_turn_requests"])
async def test_its_own_limits_are_limits(tmp_path: Path, stop: str) -> None:
    async with session(tmp_path, [*opening(), *turn(text("so far"), stop=stop)]) as opened:
        end = (await events_of(opened))[-1]
    assert isinstance(end, TurnEnded) and end.outcome == "limited"


async def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    for limits in (Limits(max_cost_usd=1.0), Limits(max_tokens=10)):
        with pytest.raises(Unsupported, match="cannot be enforced"):
            async with session(tmp_path, opening("Kimi Code CLI"), "kimi", limits=limits):
                pass


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([heard("initialize", "i"), returns("i", {"protocolVersion": 2})], VersionMismatch),
        ([heard("initialize", "i"), returns("i", None)], VersionMismatch),
        ([*greeting(), heard("session/new", "n"), fails("n", -32000, "sign in")], AuthFailed),
        ([*greeting(), heard("session/new", "n"), returns("n", {})], RemoteError),
    ],
)
async def test_a_session_that_cannot_be_opened_says_why_and_leaves_nothing(
    tmp_path: Path, lines: list[Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        async with session(tmp_path, lines):
            pass


# Which session, mode and model


async def test_a_session_goes_on_with_its_past(tmp_path: Path) -> None:
    past = [
        update(sessionUpdate="user_message_chunk", content={"type": "text", "text": "before"}),
        text("earlier"),
    ]
    lines = [*greeting(loadSession=True), heard("session/load", "l"), *past, returns("l", {}), *turn(text("now"))]
    async with session(tmp_path, lines, resume="old") as opened:
        assert opened.id == "old"
        assert [type(event).__name__ for event in opened.history()] == ["TurnStarted", "Message"]
        assert (await events_of(opened))[-1].text == "now"  # type: ignore[union-attr]


async def test_without_load_it_is_resumed_and_the_newest_is_found(tmp_path: Path) -> None:
    kept = [
        {"sessionId": "a", "cwd": "/", "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "b", "cwd": "/", "updatedAt": "2026-02-01T00:00:00Z"},
    ]
    can = {"sessionCapabilities": {"resume": {}, "list": {}, "fork": {}}}
    lines = [*greeting(**can), heard("session/list", "l"), returns("l", {"sessions": kept})]
    async with session(tmp_path, [*lines, heard("session/resume", "r"), returns("r", {})], resume="") as opened:
        assert opened.id == "b"
    forks = [*greeting(**can), heard("session/fork", "f"), returns("f", {"sessionId": "copy"})]
    async with session(tmp_path, forks, resume="old", fork=True) as opened:
        assert opened.id == "copy"


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("odd", {"resume": "old"}),
        ("gemini-cli", {"resume": "old"}),
        ("odd", {"resume": ""}),
        ("odd", {"resume": "x", "fork": True}),
    ],
)
async def test_what_it_cannot_go_on_with_is_refused(tmp_path: Path, name: str, spec: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        async with session(tmp_path, greeting(name, loadSession=name == "gemini-cli"), **spec):
            pass


async def test_a_session_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    lines = [*greeting(loadSession=True), heard("session/load", "l"), fails("l", -32603, "no such")]
    with pytest.raises(NotFound):
        async with session(tmp_path, lines, resume="old"):
            pass


MODES = {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}, {"id": "plan"}]}
MODELS = [
    {
        "id": "model",
        "category": "model",
        "currentValue": "m1",
        "options": [{"value": "m1"}, {"value": "m2", "name": "Two"}],
    }
]


async def test_it_is_set_to_the_mode_in_which_it_asks(tmp_path: Path) -> None:
    lines = [*opening("qwen-code", {"modes": MODES}), heard("session/set_mode", "m"), returns("m", {})]
    plan = [heard("session/set_mode", "q"), returns("q", {})]
    async with session(tmp_path, [*lines, *plan], "qwen", mode="full-auto") as opened:
        await opened.configure(Change(mode="plan"))
        assert opened.info.mode == "plan"


async def test_a_mode_that_is_gone_is_said(tmp_path: Path) -> None:
    modes = {"currentModeId": "auto", "availableModes": [{"id": "auto"}]}
    async with session(tmp_path, opening("qwen-code", {"modes": modes}), "qwen") as opened:
        warned = [event.message for event in opened.events().ready() if isinstance(event, Warned)]
    assert any("no longer has the mode 'default'" in message for message in warned)


async def test_settings_that_allow_everything_are_set_back(tmp_path: Path) -> None:
    told = {"configOptions": [{"id": "allow_all", "currentValue": "on"}]}
    lines = [*opening("Copilot", told), heard("session/set_config_option", "o"), returns("o", {})]
    async with session(tmp_path, lines, "copilot"):
        pass


async def test_a_model_is_chosen_by_its_id_or_its_name(tmp_path: Path) -> None:
    lines = [*opening(session={"configOptions": MODELS}), heard("session/set_config_option", "o"), returns("o", {})]
    async with session(tmp_path, lines, model="Two") as opened:
        assert opened.info.models == ("Two",)
    models = {"models": {"availableModels": [{"modelId": "m9"}], "currentModelId": "m1"}}
    lines = [*opening(session=models), heard("session/set_model", "o"), returns("o", {})]
    async with session(tmp_path, lines) as opened:
        assert opened.info.models == ("m1",), "the one that it uses, and not all that it has"
        await opened.configure(Change(model="m9"))
        assert opened.info.models == ("m9",)
    with pytest.raises(ConfigError, match="no model 'm7'"):
        async with session(tmp_path, opening(session={"configOptions": MODELS}), model="m7"):
            pass


async def test_its_slash_commands_are_prompts(tmp_path: Path) -> None:
    offered = update(sessionUpdate="available_commands_update", availableCommands=[{"name": "compact"}])
    async with session(tmp_path, [*opening(), *turn(offered), *turn(text("compacted"))]) as opened:
        await events_of(opened)
        assert await opened.command("other", "") is None
        reader = opened.events(after=-1)
        result = await opened.command("compact", "now")
        assert result is not None and result.turn is not None
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, TurnEnded):
                    assert event.text == "compacted"
                    break


async def test_counts_of_a_turn_are_spent(tmp_path: Path) -> None:
    usage = {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}
    async with session(tmp_path, [*opening(), *turn(usage=usage)], limits=Limits(max_tokens=5)) as opened:
        events = await events_of(opened)
    assert of(events, Usage)[0].input_tokens == 9
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "limited"


async def test_a_limit_of_what_it_does_not_report_after_all_is_warned_about(tmp_path: Path) -> None:
    limits = Limits(max_tokens=5000, max_cost_usd=1.0)
    async with session(tmp_path, [*opening(), *turn(text("hello"))], limits=limits) as opened:
        (warned,) = [each for each in of(await events_of(opened), Warned) if each.code == "not_enforced"]
    assert "reported no tokens and no costs" in warned.message
