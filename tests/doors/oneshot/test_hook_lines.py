"""The lines of what hooks begin and end."""

import pytest

from tests.doors.oneshot.test_run import Sink
from tests.stand_ins.sessions import ScriptedSession
from treadle.agent.hooks import HookStep
from treadle.doors.oneshot.hooks import write_hook_lines
from treadle.doors.oneshot.run import OneShot
from treadle.session import SessionSpec


@pytest.mark.parametrize(("code", "outcome"), [(0, "success"), (2, "error"), (None, "cancelled")])
async def test_both_lines_come_before_the_result(code: int | None, outcome: str) -> None:
    session, out = ScriptedSession(SessionSpec.of(cwd="/", session_id="s1"), []), Sink()
    runner = OneShot(session, "stream-json", out=out)
    write = write_hook_lines(session, runner)
    step = HookStep(id="h1", event="PreToolUse", name="PreToolUse:Bash")
    write(step)
    write(HookStep(id="h1", event="PreToolUse", name="PreToolUse:Bash", done=True, stdout="a", exit_code=code))
    await runner.run("go")
    began, ended = [record for record in out.records if record["type"] == "system"]
    assert (began["subtype"], began["hook_id"], began["session_id"]) == ("hook_started", "h1", "s1")
    assert (ended["subtype"], ended["outcome"], ended["output"]) == ("hook_response", outcome, "a")
    assert out.records[-1]["type"] == "result" and ended.get("exit_code") == code
    await session.close()
