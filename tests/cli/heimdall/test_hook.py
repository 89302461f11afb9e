"""treadle coord hook: what an outside agent's hook runs before a tool call."""

import json
import os
from pathlib import Path

import pytest

from tests.coordination.conftest import Run
from treadle.cli.heimdall import hook


def call(project: Path) -> str:
    said = {"session_id": "s", "cwd": str(project), "hook_event_name": "PreToolUse", "tool_name": "Write"}
    return json.dumps({**said, "tool_input": {"file_path": str(project / "src" / "a" / "b.ts")}})


def test_a_write_to_what_another_holds_is_refused_and_any_other_goes_on_without_a_word(
    heimdall: Run, project: Path
) -> None:
    bob = "haid:bob.box-0002"
    heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=bob)
    done = heimdall("hook", "claude", stdin=call(project))
    assert done.returncode == 0 and json.loads(done.stdout)["decision"] == "block" and bob in done.stdout
    assert json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
    told = json.loads(heimdall("hook", "cursor", stdin=call(project)).stdout)
    assert "permission" in told and "decision" not in told
    heimdall("claim", "release", HEIMDALL_HAID=bob)
    assert "free now: src/a/b.ts" in heimdall("hook", "claude", stdin=call(project)).stdout
    assert heimdall("hook", "claude", stdin=call(project)).stdout == ""


def test_what_is_no_call_goes_on_and_says_why(heimdall: Run) -> None:
    done = heimdall("hook", "claude", stdin="{")
    assert (done.returncode, done.stdout) == (0, "") and "not JSON" in done.stderr
    assert heimdall("hook", "nobody", stdin="{}").returncode == 2


def test_a_look_that_takes_too_long_refuses_the_write(
    heimdall: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is a pipe which nobody writes to is never read to its end."""
    heimdall("claim", "claim", "docs", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002")
    os.mkfifo(project / ".git/heimdall/ledger/claims/haid_x.json")
    monkeypatch.setattr(hook, "SECONDS", 1)
    assert "could not be checked" in heimdall("hook", "claude", stdin=call(project)).stdout
