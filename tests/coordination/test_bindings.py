"""Two live clients with one name have two identities; a client that reconnects keeps its identity."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.coordination import identity
from treadle.coordination.bindings import GONE_SECONDS, IdentityBindings
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

ROOT = "haid:ann.box-0001"


def test_a_killed_server_frees_its_identity(planning: Planning) -> None:
    code = (
        "import sys; from treadle.coordination.planning import Planning\n"
        "from treadle.coordination.bindings import IdentityBindings\n"
        f"bindings = IdentityBindings(Planning({planning.root!r}), {ROOT!r})\n"
        "print(bindings.haid('cursor'), flush=True)\n"
        "sys.stdin.read()"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdin is not None
    assert server.stdout.readline() == f"{ROOT}/cursor\n"
    mine = IdentityBindings(planning, ROOT)
    assert mine.haid("cursor") == f"{ROOT}/cursor-2"
    mine.leave()
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    server.stdin.close()
    again = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert again.stdout == f"{ROOT}/cursor\n"  # started by the same program, which still runs


def test_a_session_keeps_its_identity_over_servers_and_another_does_not_inherit_what_it_holds(
    planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(planning)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    first = IdentityBindings(planning, ROOT)
    haid = first.haid("claude-code")
    claims.claim(haid, ["src"], "T")
    first.leave()
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s2")
    other = IdentityBindings(planning, ROOT)
    assert other.haid("claude-code") == f"{ROOT}/claude-code-2"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    again = IdentityBindings(planning, ROOT)
    assert again.haid("claude-code") == haid
    assert again.family(haid) == {haid}
    again.leave()
    other.leave()


def test_a_hook_and_a_server_of_one_program_take_one_seat(planning: Planning) -> None:
    """Whichever comes first: the hook knows the session, the server only knows its starter."""
    starter = identity.starter()
    assert starter is not None
    bindings = IdentityBindings(planning, ROOT)
    hooked = bindings.enter("gemini", "gemini:g1", starter)
    assert bindings.haid("gemini-cli-mcp-client") == hooked == bindings.enter("gemini", "gemini:g1", starter)
    assert bindings.recognise([], [starter]).haid == hooked  # type: ignore[union-attr]
    assert bindings.recognise(["gemini:g1"], [starter]).haid == hooked  # type: ignore[union-attr]
    assert bindings.recognise(["gemini:g1"], []) is None, "its process runs, and is not above the one who says so"
    assert bindings.recognise(["gemini:g2"], [starter]) is None
    assert bindings.enter("gemini", "gemini:g2", starter) != hooked
    bindings.leave()


def test_sessions_that_ended_long_ago_are_forgotten_unless_they_hold_something(tmp_path: Path) -> None:
    now = [1_781_179_647.0]
    planning = Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: now[0])
    claims, bindings = Claims(planning), IdentityBindings(planning, ROOT, remote=True)
    kept = bindings.haid("cursor")
    claims.claim(kept, ["src"], "T", 60 * 24 * 30)
    bindings.haid("copilot")
    bindings.leave()
    now[0] += GONE_SECONDS + 60
    assert IdentityBindings(planning, ROOT, remote=True).enter("claude", "claude:s1", None)
    assert sorted(binding.name for binding in bindings.all()) == ["claude-code", "cursor"]
