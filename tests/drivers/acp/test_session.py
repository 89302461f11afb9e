"""A session with agents that do what agents do. The whole contract is in tests/drivers/test_session.py."""

import asyncio
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.acp.hand import Hand, by_hand
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
from treadle import __version__
from treadle.drivers.acp import driver as session_module
from treadle.drivers.acp.driver import AcpSession
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
from treadle.io.peer import Patience
from treadle.session import Access, Answer, Change, Confinement, Decision, Guards, Limits, Prompt, Rules
from treadle.sessions.totals import run_turn
from treadle.wire.acp.tools import ToolRecord
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault

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


async def test_a_call_that_is_announced_and_not_asked_about_is_running_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "UNASKED", 0.01)
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
        ([{"dir": "out", "line": {"id": "p"}}], "provider_error"),
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
        assert not opened.peer.gone, "it ended its turn by itself and can go on"


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
        assert not opened.peer.gone
    assert of(events, Usage)[0].input_tokens == 9
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "limited"


# What it is told, word for word


def warned(opened: AcpSession) -> list[tuple[str, str]]:
    return [(event.code, event.message) for event in of(opened.events().ready(), Warned)]


async def prompted(
    opened: AcpSession, hand: Hand, *, says: str = "", text: str = "go", **result: Any
) -> tuple[Any, Any]:
    """A turn: what the agent was told in the prompt, and how the turn ended."""
    running = asyncio.create_task(events_of(opened, text))
    call = await hand.told()
    assert call["method"] == "session/prompt", call
    if says:
        hand.text(says)
    hand.say(id=call["id"], result={"stopReason": "end_turn", **result})
    return call["params"], (await running)[-1]


@pytest.mark.parametrize(("card", "name", "offered"), [("acp", "odd", True), ("gemini", "gemini-cli", False)])
async def test_what_a_session_is_opened_with(tmp_path: Path, card: str, name: str, offered: bool) -> None:
    spec: dict[str, Any] = {"system_prompt": "Be kind.", "append_system_prompt": "Be brief.", "mode": None}
    async with by_hand(tmp_path, card=card, name=name, **spec) as (opened, hand, (greeting, new)):
        assert greeting["protocolVersion"] == 1 and greeting["clientInfo"]["version"] == __version__
        assert greeting["clientCapabilities"] == {
            "fs": {"readTextFile": offered, "writeTextFile": offered},
            "terminal": offered,
            "_meta": {"tool_denied": True},
        }
        assert new == {"cwd": str(tmp_path / "work"), "mcpServers": []}
        info = opened.info
        assert info.name == (f"acp:{shlex.join(hand.argv)}" if card == "acp" else card)
        assert (info.version, info.models, info.capabilities["images"]) == ("9", (), "unsupported")
        known = [message for code, message in warned(opened) if code == "not_enforced" and "itself decides" in message]
        assert len(known) == (1 if offered else 0)
        assert [message for code, message in warned(opened) if code == "emulated"] == [
            f"{info.name} keeps its own system prompt; ours is put in front of the first prompt"
        ]
        told, ended = await prompted(opened, hand, says="ok")
        inner = "<instructions>\nBe kind.\n</instructions>\n\n<instructions>\nBe brief.\n</instructions>\n\ngo"
        assert told == {"sessionId": "s1", "prompt": [{"type": "text", "text": inner}]}
        assert (ended.text, ended.stop_reason) == ("ok", "end_turn")
        told, ended = await prompted(opened, hand)
        assert told["prompt"][0]["text"] == "go" and ended.text == ""


async def test_one_that_goes_on_is_not_instructed_again_and_takes_what_it_says_that_it_takes(tmp_path: Path) -> None:
    servers = {"near": {"command": "x"}, "far": {"url": "https://x.example"}}
    can = {
        "promptCapabilities": {"image": True},
        "sessionCapabilities": {"resume": {}, "list": {}, "additionalDirectories": {}},
    }
    listed = ("session/list", {"sessions": [{"sessionId": "old"}]})
    spec: dict[str, Any] = {"add_dirs": ("/tmp",), "append_system_prompt": "Be brief.", "resume": ""}
    spec |= {"can": can, "opens": (listed, ("session/resume", None)), "servers": servers}
    async with by_hand(tmp_path, **spec) as (opened, hand, (_, asked, resumed)):
        work = str(tmp_path / "work")
        assert asked == {"cwd": work} and resumed["sessionId"] == opened.id == "old"
        assert resumed["additionalDirectories"] == ["/tmp"] and [one["name"] for one in resumed["mcpServers"]] == [
            "near"
        ]
        assert (
            "not_used",
            f"{opened.info.name} cannot reach the MCP servers far: it takes none of that kind",
        ) in warned(opened)
        assert opened.info.capabilities["images"] == "native" and opened.info.capabilities["fork"] == "unsupported"
        assert [code for code, _ in warned(opened) if code == "emulated"] == []
        told, _ = await prompted(opened, hand)
        assert told["prompt"] == [{"type": "text", "text": "go"}] and told["sessionId"] == "old"
        listing = asyncio.create_task(opened.stored_sessions())
        assert await hand.returns("session/list", {"sessions": []}) == {} and await listing == []


async def asking(opened: AcpSession, hand: Hand, answer: Answer, text: str = "go") -> tuple[Any, Any, TurnEnded, Any]:
    """A turn in which it asks for a permission: the prompt, our answer, the end, and what was reported."""
    running = asyncio.create_task(events_of(opened, text, answer))
    call = await hand.told()
    outcome = await hand.asks("session/request_permission", options=OPTIONS, toolCall=SHELL)
    hand.text("so it is")
    hand.say(id=call["id"], result={"stopReason": "cancelled" if answer.decision == "deny" else "end_turn"})
    events = await running
    assert isinstance(events[-1], TurnEnded)
    return call["params"]["prompt"][0]["text"], outcome["result"]["outcome"], events[-1], events


async def test_why_a_person_refused_is_told_with_the_next_prompt_that_is_no_command(tmp_path: Path) -> None:
    async with by_hand(tmp_path, mode="suggest", answers=True) as (opened, hand, _):
        _, outcome, ended, events = await asking(opened, hand, Answer(decision="deny", text="use make"))
        assert outcome == {"outcome": "selected", "optionId": "n"}
        assert (ended.outcome, ended.stop_reason, ended.error) == ("completed", "denied", None)
        assert [one.reason for one in of(events, ToolDenied)] == ["use make"] and not of(events, ToolEnded)
        told, _ = await prompted(opened, hand, text=" /compact")
        assert told["prompt"][0]["text"] == " /compact"
        said, outcome, ended, events = await asking(opened, hand, Answer(decision="allow"))
        assert said == "About the call 'touch made' that was refused: use make\n\ngo"
        assert outcome == {"outcome": "selected", "optionId": "y"} and ended.stop_reason == "end_turn"
        assert [(one.command, one.args) for one in of(events, ToolStarted)] == [
            ("touch made", {"command": "touch made"})
        ]
        assert [(one.result, one.ok) for one in of(events, ToolEnded)] == [("the turn ended before it did", False)]
        said, *_ = await asking(opened, hand, Answer(decision="deny"))
        assert said == "go", "told once"
        told, ended = await prompted(opened, hand, says="half", stopReason="cancelled")
        assert told["prompt"][0]["text"] == "go", "no words were added"
        assert (ended.outcome, ended.text, ended.error.message) == (
            "interrupted",
            "half",
            "the agent cancelled the turn",
        )
    async with by_hand(tmp_path, mode="suggest") as (opened, hand, _):
        await asking(opened, hand, Answer(decision="deny"))
        told, _ = await prompted(opened, hand)
        assert told["prompt"][0]["text"] == "go", "what our rules say is no person's word"


async def test_what_is_asked_wrongly_is_refused_and_what_nobody_knows_is_ignored(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (opened, hand, _):
        assert (await hand.asks("odd/thing"))["error"]["code"] == METHOD_NOT_FOUND
        for call in ({}, {"toolCallId": 7}, None):
            answer = await hand.asks("session/request_permission", options=OPTIONS, toolCall=call)
            assert answer["error"]["code"] == INVALID_PARAMS
        assert (await hand.asks("session/request_permission", options=OPTIONS, toolCall=SHELL))["result"] == CANCELLED
        hand.text("before the turn")
        hand.update("available_commands_update", availableCommands=[{"name": "compact"}])
        hand.say(method="odd/update", params={"update": {"sessionUpdate": "agent_message_chunk", "content": {}}})
        hand.say(method="session/update", params={"update": 7})
        while not opened.commands():
            await asyncio.sleep(0.001)
        told, ended = await prompted(opened, hand, says="now")
        assert ended.text == "now" and await opened.command("other", "") is None
        running = asyncio.create_task(opened.command("compact", ""))
        call = await hand.told()
        assert call["params"]["prompt"][0]["text"] == "/compact"
        hand.say(id=call["id"], result={"stopReason": "end_turn"})
        assert (result := await running) is not None and result.turn


async def test_what_a_call_did_is_told_once_with_its_whole_path_and_its_costs_are_counted(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"mode": "full-auto", "confinement": Confinement(use="off"), "routine": ("iterations",)}
    async with by_hand(tmp_path, **spec, limits=Limits(max_iterations=1)) as (opened, hand, _):
        running = asyncio.create_task(events_of(opened))
        call = await hand.told()
        written = await hand.asks("fs/write_text_file", path=str(tmp_path / "work" / "a.txt"), content="new\n")
        assert "error" not in written
        diff = [{"type": "diff", "path": path, "oldText": None, "newText": "new\n"} for path in ("a.txt", "b.txt")]
        hand.update("tool_call", toolCallId="c1", kind="edit", title="Edit", status="completed", content=diff)
        hand.update("usage_update", used=5, size=100)
        hand.say(id=call["id"], result={"stopReason": "end_turn"})
        events = await running
        assert [one.path for one in of(events, FileChanged)] == [
            str(tmp_path / "work" / "a.txt"),
            str(tmp_path / "work" / "b.txt"),
        ]
        assert [one.ok for one in of(events, ToolEnded)][-1] is True
        assert (opened.info.context_used, opened.info.context_window) == (5, 100)
        running = asyncio.create_task(events_of(opened))
        call = await hand.told()
        for _ in range(2):
            usage = {"inputTokens": 3, "outputTokens": 1}
            hand.update("agent_message_chunk", content={"type": "text", "text": "x"}, _meta={"usage": usage})
        stop = await hand.told()
        assert (stop["method"], stop["params"]) == ("session/cancel", {"sessionId": "s1"})
        hand.say(id=call["id"], result={"stopReason": "cancelled"})
        ended = (events := await running)[-1]
        assert isinstance(ended, TurnEnded) and (ended.outcome, ended.iterations) == ("limited", 2)
        assert len(of(events, Usage)) == 2


MODE_OPTION = {
    "id": "mode",
    "category": "mode",
    "currentValue": "auto",
    "options": [{"value": "auto"}, {"value": "default"}],
}


async def test_its_own_mode_is_set_only_where_it_differs_and_in_the_way_that_it_offers(tmp_path: Path) -> None:
    new = ("session/new", {"sessionId": "s1", "modes": {**MODES, "currentModeId": "default"}})
    async with by_hand(tmp_path, card="qwen", name="qwen-code", opens=(new,), mode="suggest") as (opened, hand, _):
        changing = asyncio.create_task(opened.configure(Change(mode="plan")))
        assert await hand.returns("session/set_mode", {}) == {"sessionId": "s1", "modeId": "plan"}
        await changing
        changing = asyncio.create_task(opened.configure(Change(mode="full-auto")))
        assert (await hand.returns("session/set_mode", {}))["modeId"] == "default"
        await changing
        assert opened._confining._mode == opened.info.mode == "full-auto"
        await opened.configure(Change(mode="auto-edit"))
        opened.peer.patience = Patience(handshake=0.05, grace=1.0)
        with pytest.raises(RemoteError, match="^qwen did not answer"):
            await opened.configure(Change(mode="plan"))
        assert opened.info.mode == "auto-edit" and (await hand.told())["params"]["modeId"] == "plan"
    opens = (("session/new", {"sessionId": "s1", "configOptions": [MODE_OPTION]}), ("session/set_config_option", {}))
    async with by_hand(tmp_path, card="qwen", name="qwen-code", opens=opens) as (_, _, (*_, option)):
        assert option == {"sessionId": "s1", "configId": "mode", "value": "default"}


@pytest.mark.parametrize(("value", "set_back"), [("on", True), ("off", False), (None, False)])
async def test_settings_are_set_back_only_where_they_are_there_and_differ(
    tmp_path: Path, value: str | None, set_back: bool
) -> None:
    options = [{"id": "allow_all", "currentValue": value}, *MODELS] if value else MODELS
    opens: list[Any] = [("session/new", {"sessionId": "s1", "configOptions": options})]
    opens += [("session/set_config_option", {})] * (2 if set_back else 1)
    spec: dict[str, Any] = {"card": "copilot", "name": "Copilot", "model": "Two"}
    async with by_hand(tmp_path, opens=tuple(opens), **spec) as (opened, hand, (_, _, *changes)):
        assert [(one["configId"], one["value"]) for one in changes] == [("allow_all", "off"), ("model", "m2")][
            -len(changes) :
        ]
        assert opened._incoming.meter.model == "Two" and (await opened.menu()).current == "m2"
        changing = asyncio.create_task(opened.configure(Change(model="m1")))
        assert (await hand.returns("session/set_config_option", {}))["value"] == "m1"
        await changing
        assert opened.spec.model == opened._incoming.meter.model == "m1" and opened.info.models == ("m1",)
        signing = asyncio.create_task(opened.sign_in("key"))
        call = await hand.told()
        assert (call["method"], call["params"]) == ("authenticate", {"methodId": "key"})
        hand.say(id=call["id"], error={"code": -32000, "message": "no"})
        with pytest.raises(AuthFailed, match="copilot: no"):
            await signing
        _, _, ended, events = await asking(opened, hand, Answer(decision="deny"))
        assert ended.stop_reason == "denied"


async def test_words_about_a_refusal_are_no_answer(tmp_path: Path) -> None:
    async with by_hand(tmp_path, card="copilot", name="Copilot", mode="suggest") as (opened, hand, _):
        words = "Info: Operation cancelled by user"
        _, ended = await prompted(opened, hand, says=words)
        assert (ended.text, ended.stop_reason) == (words, "end_turn"), "nothing was refused"
        running = asyncio.create_task(events_of(opened))
        call = await hand.told()
        await hand.asks("session/request_permission", options=OPTIONS, toolCall=SHELL)
        hand.text(words)
        hand.say(id=call["id"], result={"stopReason": "end_turn"})
        ended = (await running)[-1]
        assert (ended.text, ended.stop_reason, ended.outcome) == ("", "denied", "completed")
        _, ended = await prompted(opened, hand, says=words)
        assert ended.stop_reason == "end_turn", "each turn begins anew"


async def test_what_it_does_through_us_is_covered_by_a_permitted_call_of_the_same_kind_only(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"mode": "suggest", "answers": True, "rules": Rules(deny=("Bash(rm *)",))}
    async with by_hand(tmp_path, **spec) as (opened, hand, _):
        running = asyncio.create_task(events_of(opened, answer=Answer(decision="allow")))
        call = await hand.told()
        await hand.asks("session/request_permission", options=OPTIONS, toolCall=SHELL)
        run = Access(tool="bash", kind="execute", command="make")
        assert await opened.use(run, "t1") == "c1" and len(of(opened.events().ready(), Asked)) == 1
        with pytest.raises(Fault, match="not allowed: "):
            await opened.use(Access(tool="bash", kind="execute", command="rm x"), "t2")
        assert await opened.use(Access(tool="write", kind="write", paths=("x",)), "t3") == "t3"
        asked = of(opened.events().ready(), Asked)[-1]
        assert asked.paths == (str(tmp_path / "work" / "x"),) and asked.call == "t3"
        hand.update("tool_call_update", toolCallId="c1", status="completed")
        while not opened._incoming.tools["c1"].ended:
            await asyncio.sleep(0.001)
        assert await opened.use(run, "t4") == "t4"
        hand.say(id=call["id"], result={"stopReason": "end_turn"})
        await running
    assert opened.peer.gone and opened._confining._closed and not opened._terminals._open


async def test_only_a_call_of_this_turn_that_is_not_being_asked_about_is_taken_to_run(tmp_path: Path) -> None:
    async with by_hand(tmp_path, mode="suggest", answers=True) as (opened, hand, _):

        def started() -> int:
            return len(of(opened.events().ready(), ToolStarted))

        running = asyncio.create_task(events_of(opened))
        call = await hand.told()
        hand.say(id="asked", method="session/request_permission", params={"options": OPTIONS, "toolCall": SHELL})
        while not (asked := of(opened.events().ready(), Asked)):
            await asyncio.sleep(0.001)
        record = opened._incoming.tools["c1"]
        opened._must_be_running(record)
        opened._must_be_running(ToolRecord("of another turn"))
        assert started() == 0 and not record.started
        await opened.answer(asked[0].request, Answer(decision="deny"))
        await hand.told()
        other = opened._incoming.tools["c2"] = ToolRecord("c2")
        opened._must_be_running(other)
        opened._output("c2", "")
        assert started() == 1 and other.started
        hand.say(id=call["id"], result={"stopReason": "end_turn"})
        await running
        late = opened._incoming.tools["c3"] = ToolRecord("c3")
        opened._must_be_running(late)
        opened._output("c2", "late")
        assert started() == 1 and not late.started and not of(opened.events().ready(), ToolOutput)
