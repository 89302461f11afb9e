"""A program's own tools and hooks, as the loop meets them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.hooks import ProgramHooks, ProgramTool, ShellHooks
from treadle.errors import ToolError
from treadle.session import Access, HookVerdict, OwnProgram, OwnTool, Use
from treadle.settings.config import Hook, HookSettings

ACCESS = Access(tool="bash", kind="execute", command="ls")


def shell(cwd: Path, **hooks: str) -> ShellHooks:
    made = HookSettings(**{name: [Hook(command=command)] for name, command in hooks.items()})  # type: ignore[arg-type]
    return ShellHooks(made, cwd=str(cwd), env={"PATH": "/usr/bin:/bin"}, session="s", warn=print)


async def test_a_tool_of_a_program_that_does_not_answer_the_host_in_time_has_failed() -> None:
    async def call(given: dict[str, object]) -> str:
        await asyncio.Event().wait()
        return ""

    tool = ProgramTool(OwnTool(name="t", description="d", parameters={}, call=call))
    with pytest.raises(ToolError, match="t did not answer within 0.01 s"):
        await asyncio.wait_for(tool.ask({}, 0.01), 60)


async def test_a_hook_puts_something_in_the_place_of_a_result_and_another_adds_to_it(tmp_path: Path) -> None:
    async def hide(use: Use, result: str, ok: bool) -> HookVerdict:
        return HookVerdict(result=result.replace("secret", "[hidden]"), context="cleaned")

    async def add(use: Use, result: str, ok: bool) -> str:
        return f"seen: {result}"

    hooks = ProgramHooks([OwnProgram(post_tool=hide), OwnProgram(post_tool=add)], shell(tmp_path))
    said = await hooks.post_tool("c1", "bash", {}, ACCESS, "the secret", True)
    assert said == "the [hidden]\ncleaned\nseen: the [hidden]"


async def test_of_several_programs_the_strictest_decides_and_their_texts_are_joined(tmp_path: Path) -> None:
    async def allow(use: Use) -> HookVerdict:
        return HookVerdict(decision="allow", context="one")

    async def ask(use: Use) -> HookVerdict:
        return HookVerdict(decision="ask", context="two")

    programs = [OwnProgram(pre_tool=allow), OwnProgram(pre_tool=ask), OwnProgram(pre_tool=allow)]
    said = await ProgramHooks(programs, shell(tmp_path)).judge("c1", "bash", {}, ACCESS)
    assert (said.decision, said.context) == ("ask", "one\ntwo\none")


async def test_changed_arguments_are_what_the_next_program_sees_and_a_denial_ends_it(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def change(use: Use) -> HookVerdict:
        seen.append(use.args)
        return HookVerdict(decision="allow", reason="fine", args={"n": len(seen)}, context="one")

    async def quiet(use: Use) -> None:
        seen.append(use.args)

    async def deny(use: Use) -> HookVerdict:
        return HookVerdict(decision="deny", reason="no", context="two")

    changing, silent = OwnProgram(pre_tool=change), OwnProgram(pre_tool=quiet)
    said = await ProgramHooks([changing, silent, OwnProgram()], shell(tmp_path)).judge("c", "bash", {"n": 0}, ACCESS)
    assert said == HookVerdict(decision="allow", reason="fine", args={"n": 1}, context="one")
    assert seen == [{"n": 0}, {"n": 1}]
    denied = await ProgramHooks([changing, OwnProgram(pre_tool=deny), changing], shell(tmp_path)).judge(
        "c", "bash", {}, ACCESS
    )
    assert (denied.decision, denied.reason, denied.context, len(seen)) == ("deny", "no", "one\ntwo", 3)
