"""Hooks and tools of the program that opened the session, from recordings of the real Claude Code."""

import asyncio
from pathlib import Path
from typing import Any

from tests.drivers.claude.test_session import BEGUN, CLAUDE, EXPECTED, TALK, asks, block, ended, follow, is_told
from tests.drivers.scenarios import DONE, PATIENCE
from tests.drivers.talks import as_expected, talked
from tests.drivers.test_session import replayed
from treadle.events import Asked, ToolDenied, ToolEnded, ToolStarted, TurnEnded
from treadle.session import Answer, HookVerdict, OwnProgram, OwnTool, Rules, SessionSpec, Use


async def played(
    recording: str, cwd: Path, program: OwnProgram, answer: Answer | None = None, **more: Any
) -> list[Any]:
    spec = SessionSpec(cwd=str(cwd), program=program, answers=answer is not None, **more)
    async with asyncio.timeout(PATIENCE):
        return await follow(await replayed(CLAUDE, recording).open(spec), answer)


def saying(verdict: str | HookVerdict | None, seen: list[str]) -> OwnProgram:
    async def before(use: Use) -> str | HookVerdict | None:
        seen.append(f"before {use.tool} {use.command}")
        return verdict

    async def after(use: Use, result: str, ok: bool) -> str:
        seen.append(f"after {use.tool} {ok}")
        return "noted by the program"

    async def stop(outcome: str, text: str) -> None:
        seen.append(f"stop {outcome} {text}")

    return OwnProgram(pre_tool=before, post_tool=after, stop=stop)


async def test_a_hook_allows_and_changes_a_call_and_sees_what_became_of_it(tmp_path: Path) -> None:
    seen: list[str] = []
    verdict = HookVerdict(decision="allow", args={"command": "touch hooked.txt", "description": "d"})
    events = await played("hooked", tmp_path, saying(verdict, seen), mode="suggest")
    assert [event.command for event in events if isinstance(event, ToolStarted)] == ["touch hooked.txt"]
    assert seen == ["before Bash touch asked.txt", "after Bash True", f"stop completed {DONE}"]


async def test_a_hook_forbids_what_the_rules_allow(tmp_path: Path) -> None:
    events = await played("forbidden", tmp_path, saying("not on a Sunday", []), mode="full-auto")
    assert [(event.by, event.reason) for event in events if isinstance(event, ToolDenied)] == [
        ("hook", "not on a Sunday")
    ]
    assert not [event for event in events if isinstance(event, ToolStarted)]


async def test_a_hook_cannot_allow_what_a_rule_forbids(tmp_path: Path) -> None:
    rules = Rules(deny=("Bash(touch *)",))
    program = saying(HookVerdict(decision="allow"), [])
    events = await played("forbidden", tmp_path, program, mode="full-auto", rules=rules)
    assert [event.by for event in events if isinstance(event, ToolDenied)] == ["rule"]


async def test_a_hook_has_a_person_asked_about_what_the_rules_allow(tmp_path: Path) -> None:
    program = saying(HookVerdict(decision="ask", reason="are you sure?"), [])
    events = await played("changed", tmp_path, program, Answer(decision="deny", text="no"), mode="yolo")
    assert [event.name for event in events if isinstance(event, Asked)] == ["Bash"]
    assert [event.by for event in events if isinstance(event, ToolDenied)] == ["person"]


async def test_a_tool_of_the_program_runs_in_the_program(tmp_path: Path) -> None:
    weighed = []

    async def weigh(args: dict[str, Any]) -> str:
        weighed.append(args)
        return "17 grams"

    tool = OwnTool(name="weigh", description="Weighs a thing.", parameters={"type": "object"}, call=weigh, kind="read")
    events = await played("own-tool", tmp_path, OwnProgram(tools=(tool,)), mode="full-auto")
    assert weighed == [{"thing": "the pen"}]
    assert [event.name for event in events if isinstance(event, ToolEnded)] == ["mcp__treadle__weigh"]
    assert [event.text for event in events if isinstance(event, TurnEnded)] == [DONE]


async def test_each_request_about_a_tool_has_its_answer(tmp_path: Path) -> None:
    async def before(use: Use) -> str | HookVerdict | None:
        verdicts: dict[str | None, str | HookVerdict] = {
            "changed": HookVerdict(args={"command": "other"}, context="noted"),
            "asked": HookVerdict(decision="ask", reason="sure?"),
            "ruled": HookVerdict(decision="allow"),
            "never": "not today",
            "let": HookVerdict(decision="allow"),
        }
        return verdicts.get(use.command)

    async def after(use: Use, text: str, ok: bool) -> str | HookVerdict | None:
        if text == "replace":
            return HookVerdict(result=f"{use.tool} {use.call} {ok}")
        return f"seen {text}" if text else None

    def answer(asked: Asked) -> Answer:
        if asked.kind == "question":
            return Answer(decision="allow", text="Red")
        if asked.command == "asked":
            return Answer(decision="deny")
        return Answer(decision="allow", scope="session" if asked.command == "lasting" else "once")

    def hook(id: str, call: str, command: str, **more: Any) -> list[tuple[str, Any]]:
        given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call, **more}
        return asks(id, "hook_callback", callback_id="before", input=given)

    def ran(id: str, event: str, name: str = "Bash", **more: Any) -> list[tuple[str, Any]]:
        given = {"tool_name": name, "tool_input": {}, "hook_event_name": event, "tool_use_id": "c", **more}
        return asks(id, "hook_callback", callback_id="after", input=given)

    def may(id: str, call: str | None, command: str, **more: Any) -> list[tuple[str, Any]]:
        return asks(id, "can_use_tool", tool_name="Bash", input={"command": command}, tool_use_id=call, **more)

    question = {"questions": [{"question": "Which?", "options": [{"label": "Red"}]}]}
    rule = {"type": "addRules", "rules": [], "destination": "localSettings"}
    tool = OwnTool(name="weigh", description="Weighs.", parameters={"type": "object"}, call=weighed, kind="read")
    program = OwnProgram(pre_tool=before, post_tool=after, tools=(tool,))
    spec = SessionSpec(
        cwd=str(tmp_path), mode="suggest", answers=True, program=program, rules=Rules(deny=("Bash(ruled)",))
    )
    _, events, told = await talked(
        CLAUDE,
        tmp_path,
        spec,
        TALK._replace(answer=answer),
        *is_told(1, "initialize", {}),
        *is_told(2, "mcp_set_servers", {}),
        *BEGUN,
        *asks(
            "h0", "hook_callback", callback_id="before", input={"tool_name": "Read", "tool_input": {}}, tool_use_id="c0"
        ),
        *hook("h1", "c1", "plain"),
        *may("m1", "c1", "plain", description="Runs it."),
        *hook("h2", "c2", "changed"),
        *hook("h3", "c3", "asked"),
        *may("m3", "c3", "asked"),
        *hook("h4", "c4", "ruled"),
        *hook("h5", "c5", "never"),
        *hook("h6", "c6", "let"),
        *may("m7", None, "lasting", permission_suggestions=[rule]),
        *asks("h8", "hook_callback", callback_id="before", input={"tool_name": "AskUserQuestion", "tool_use_id": "q"}),
        *asks("m8", "can_use_tool", tool_name="AskUserQuestion", input=question, tool_use_id="q"),
        *ran("a1", "PostToolUse", tool_response="replace"),
        *ran("a2", "PostToolUse", "mcp__x__y", tool_response="replace"),
        *ran("a3", "PostToolUseFailure", error="replace"),
        *ran("a4", "PostToolUseFailure", error="why"),
        *ran("a5", "PostToolUse", tool_response=""),
        *asks("o1", "mcp_message", server_name="treadle", message={"id": 1, "method": "ping"}),
        *asks("u1", "dream"),
        block(type="text", text="Done."),
        ended(result="Done."),
    )
    assert as_expected(events, EXPECTED / "gated.txt")
    answers = {line["response"]["request_id"]: line["response"] for line in told if line["type"] == "control_response"}
    assert answers.pop("u1") == {"subtype": "error", "request_id": "u1", "error": "dream is not supported"}
    said = {id: response["response"] for id, response in answers.items()}

    def decided(verdict: str, reason: str, **more: Any) -> Any:
        output = {"permissionDecision": verdict, "permissionDecisionReason": reason, **more}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}

    needs = "Bash (execute) requires approval in suggest mode"
    assert said == {
        "h0": decided("allow", "the rules of this session allow it"),
        "h1": decided("ask", needs),
        "m1": {"behavior": "allow", "updatedInput": {"command": "plain"}},
        "h2": decided("ask", needs, updatedInput={"command": "other"}, additionalContext="noted"),
        "h3": decided("ask", "sure?"),
        "m3": {"behavior": "deny", "message": "the person said no"},
        "h4": decided("deny", "Bash is denied by the rule Bash(ruled)"),
        "h5": decided("deny", "not today"),
        "h6": decided("allow", needs),
        "m7": {
            "behavior": "allow",
            "updatedInput": {"command": "lasting"},
            "updatedPermissions": [{**rule, "destination": "session"}],
        },
        "h8": {},
        "m8": {"behavior": "allow", "updatedInput": {**question, "answers": {"Which?": "Red"}}},
        "a1": {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "Bash c True"}},
        "a2": {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedMCPToolOutput": "mcp__x__y c True"}},
        "a3": {},
        "a4": {"hookSpecificOutput": {"hookEventName": "PostToolUseFailure", "additionalContext": "seen why"}},
        "a5": {},
        "o1": {"mcp_response": {"jsonrpc": "2.0", "id": 1, "result": {}}},
    }
    hooks = told[0]["request"]["hooks"]
    assert {name: each[0]["hookCallbackIds"] for name, each in hooks.items()} == {
        "PreToolUse": ["before"],
        "PostToolUse": ["after"],
        "PostToolUseFailure": ["after"],
    }


async def weighed(args: dict[str, Any]) -> str:
    return "17 grams"
