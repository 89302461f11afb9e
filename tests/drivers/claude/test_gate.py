"""Hooks and tools of the program that opened the session, from recordings of the real Claude Code."""

import asyncio
from pathlib import Path
from typing import Any

from tests.drivers.claude.test_session import CLAUDE, follow
from tests.drivers.scenarios import DONE, PATIENCE
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
