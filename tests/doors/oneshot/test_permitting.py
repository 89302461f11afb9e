"""Permission questions that a program answers: everything but a clear yes is a no."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.sessions import ScriptedSession
from treadle.agent.native import NativeAgent
from treadle.doors.oneshot.input import Inquiries, apply, put_to_tool
from treadle.errors import RemoteError
from treadle.events import Answered, Asked, TextDelta
from treadle.session import Change, Prompt, SessionSpec

ASK = Asked(
    request="q", kind="permission", text="may I?", name="bash", args={"command": "ls"}, call="c1", changeable=True
)
RULES = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}]}


class Configured(ScriptedSession):
    def __init__(self, *steps: Any) -> None:
        super().__init__(SessionSpec.of(cwd="/", answers=True), [steps])
        self.changes: list[Change] = []

    async def configure(self, change: Change) -> None:
        self.changes.append(change)


async def put(reply: Any) -> tuple[Answered, Configured, list[str]]:
    """What becomes of a question when the tool says this."""
    session, warnings = Configured(ASK, TextDelta(text="done")), list[str]()

    async def ask(given: dict[str, Any]) -> str:
        assert given == {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "c1"}
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, str) else json.dumps(reply)

    asking = asyncio.create_task(put_to_tool(session, ask, warnings.append))
    reader = session.events(after=-1)
    await session.prompt(Prompt(text="go"))
    async with asyncio.timeout(60):
        answered = await anext(event async for event in reader if isinstance(event, Answered))
        await session.close()
        await asking
    return answered, session, warnings


async def test_a_yes_is_a_yes_of_the_host() -> None:
    answered, _, warnings = await put({"behavior": "allow", "updatedInput": {"command": "ls"}})
    assert (answered.decision, answered.by, warnings) == ("allow", "host", [])


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"behavior": "deny", "message": "not today"}, "not today"),
        ({"behavior": "ALLOW"}, ""),
        ({"behavior": True}, ""),
        ({}, ""),
        ("yes", "no JSON object"),
        ("[]", "no JSON object"),
        (RemoteError("the server has ended"), "the permission tool failed: the server has ended"),
    ],
)
async def test_everything_else_is_a_no_with_its_reason(reply: Any, why: str) -> None:
    answered, _, _ = await put(reply)
    assert (answered.decision, answered.by) == ("deny", "host") and why in answered.text


async def test_what_a_no_would_change_is_not_changed() -> None:
    mode = {"type": "setMode", "mode": "bypassPermissions"}
    _, session, _ = await put({"behavior": "deny", "updatedPermissions": [mode]})
    assert session.changes == []
    _, session, _ = await put({"behavior": "allow", "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits"}]})
    assert session.changes == [Change(mode="auto-edit")]


async def test_an_update_that_cannot_be_applied_is_a_warning_and_the_rest_counts() -> None:
    session, warnings = Configured(), list[str]()
    good = {"type": "setMode", "mode": "plan"}
    await apply([{"type": "setMode", "mode": "wild"}, RULES, {"type": "else"}, 7, good], session, warnings.append)
    assert session.changes == [Change(mode="plan")]
    assert len(warnings) == 4 and "wild" in warnings[0]
    await apply("addRules", session, warnings.append)
    assert len(warnings) == 4
    await session.close()


async def test_rules_of_the_host_hold_for_the_session_and_say_when_they_are_not_kept(
    tmp_path: Path, state_home: Path
) -> None:
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "hi"\n')
    spec = SessionSpec.of(cwd=str(tmp_path), model=f"scripted:{tmp_path / 'script.toml'}")
    session, warnings = await NativeAgent({}).open(spec), list[str]()
    try:
        await apply([{**RULES, "destination": "session"}], session, warnings.append)
        assert warnings == []
        await apply([{**RULES, "behavior": "deny"}], session, warnings.append)
        assert warnings == ["the rules of a permission update apply to this session only"]
        listed = await Inquiries(session).answer({"subtype": "list_permission_rules"})
        assert listed is not None
        found = {(each["behavior"], each["rule"]) for each in listed["state"]["rules"]}
        assert found == {("allow", "Bash(ls:*)"), ("deny", "Bash(ls:*)")}
    finally:
        await session.close()
