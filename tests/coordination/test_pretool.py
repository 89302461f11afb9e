"""What an outside agent's hook answers before a tool call."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import here
from tests.coordination.corpus import WRITING_CALLS
from treadle.coordination import calls
from treadle.coordination.calls import PROGRAMS, OutsideCall
from treadle.coordination.claims import Claims

BOB = "haid:bob.box-0002"


def ask(project: Path, program: str, tool: str, arguments: Any, session: str = "s1") -> dict[str, Any] | None:
    said = {"session_id": session, "cwd": str(project), "hook_event_name": "E", "tool_name": tool}
    done = here("hook", program, stdin=json.dumps({**said, "tool_input": arguments}), cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
    return found


def test_a_write_to_what_another_holds_is_refused_with_the_reason(project: Path, claims: Claims) -> None:
    for program, tool, given in WRITING_CALLS:
        arguments = json.loads(json.dumps(given).replace("TOP", str(project)))
        said = ask(project, program, tool, arguments)
        assert said is not None, (program, tool, given)
        reason = said["agent_message"] if program == "cursor" else said["reason"]
        assert BOB in reason and "T-1" in reason and f"/{program}" in reason
        if program != "cursor":
            told = {"hookEventName": "E", "permissionDecision": "deny", "permissionDecisionReason": reason}
            assert said["decision"] == "block" and said["hookSpecificOutput"] == told
        assert all(wait["surfaces"] == ["src/a/b.ts"] for wait in claims.waits.on(BOB))
    assert len(claims.waits.on(BOB)) == len({program for program, *_ in WRITING_CALLS})


def test_anything_else_goes_on_without_a_word(project: Path, claims: Claims) -> None:
    for tool, arguments in (
        ("Write", {"file_path": "docs/x.md"}),
        ("Read", {"file_path": "src/a/b.ts"}),
        ("Bash", {"command": "cat src/a/b.ts"}),
        ("Write", {"file_path": "/tmp/elsewhere"}),
        ("mcp__ide__get_symbols", {"path": "src/a/b.ts"}),
        ("mcp__heimdall-ledger__raise_conflict_pr", {"id": "c", "surfaces": ["src/a/b.ts"]}),
        ("Nonsense", {}),
    ):
        assert ask(project, "claude", tool, arguments) is None


@pytest.mark.parametrize("command", ["rm -rf src/*", "rm -rf s*", "mv src/* docs", "cp -r other/s* ."])
def test_directories_with_what_another_holds_are_not_changed_by_a_pattern(
    project: Path, claims: Claims, command: str
) -> None:
    assert ask(project, "claude", "Bash", {"command": command}) is not None
    assert ask(project, "claude", "Bash", {"command": "rm -rf docs/*"}) is None


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/heimdall/ledger/claims/x.json", "STATE/claims/x"])
def test_git_s_own_files_and_the_record_are_not_an_agent_s_while_another_holds_something(
    project: Path, claims: Claims, path: str
) -> None:
    path = path.replace("STATE", os.environ["TREADLE_HOME"])
    assert ask(project, "gemini", "write_file", {"file_path": path}) is not None
    assert ask(project, "gemini", "run_shell_command", {"command": f"rm {path}"}) is not None
    claims.release(BOB)
    assert ask(project, "gemini", "run_shell_command", {"command": f"rm {path}"}) is None


def test_where_nobody_claims_nothing_is_written(project: Path) -> None:
    assert ask(project, "claude", "Write", {"file_path": "src/a/b.ts"}) is None
    assert not (project / ".git" / "heimdall").exists()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("", ""),
        ("live/ledger/claims/x.json", "{}"),
        ("live/ledger/agents.json", '{"agents": {"haid:x": {"status": "revoked"}}}'),
        ("live/waits/x.json", "{}"),
        ("own/clones.json", "{}"),
        ("own/calls/x.json", '{"open":1,"files":{}}'),
        ("own.json", ""),
        ("own.json", '{"claims":{"x.json":{}}}'),
        ("own/seats", None),
    ],
)
def test_a_call_is_not_judged_only_where_no_one_holds_waits_or_works_and_its_session_is_known(
    project: Path, claims: Claims, place: str, text: str | None
) -> None:
    claims.release(BOB)
    ask(project, "claude", "Read", {"file_path": "x"})
    own = claims.planning.private_path()
    path = Path(place.replace("live", claims.planning.live).replace("own", own.rstrip("/")))
    if text is None:
        shutil.rmtree(path)
    elif place:
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True) if not text else path.write_text(text)
    assert calls._is_free(claims.planning, "claude:s1") is (not place)


def test_sessions_are_distinct_and_a_holder_writes_what_is_its_own_and_hears_who_waits(
    project: Path, claims: Claims
) -> None:
    claims.release(BOB)
    assert ask(project, "claude", "Write", {"file_path": "x"}, "s1") is None
    binding = claims.bindings.find_key("claude:s1")
    assert binding is not None
    claims.claim(binding.haid, ["src"], "T-2")
    assert ask(project, "claude", "Write", {"file_path": "src/a/b.ts"}, "s1") is None
    assert ask(project, "claude", "Write", {"file_path": "src/a/b.ts"}, "s2") is not None
    told = ask(project, "claude", "Write", {"file_path": "src/a/b.ts"}, "s1")
    assert told is not None and "claude-code-2 waits for src/a/b.ts" in told["hookSpecificOutput"]["additionalContext"]
    assert "decision" not in told
    assert ask(project, "claude", "Write", {"file_path": "src/a/b.ts"}, "s1") is None  # told once


def test_claims_that_cannot_be_seen_refuse_writes_and_nothing_else(project: Path, claims: Claims) -> None:
    (Path(claims.directory) / "broken.json").write_text("{")
    said = ask(project, "claude", "Write", {"file_path": "docs/x.md"})
    assert said is not None and "cannot be read" in said["reason"]
    assert ask(project, "claude", "Bash", {"command": "ls"}) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tool_input": 3, "tool_name": null}', '{"cwd": 7}'])
def test_whatever_comes_in_a_hook_does_not_fail(project: Path, claims: Claims, text: str) -> None:
    program = PROGRAMS[len(text) % len(PROGRAMS)]
    assert here("hook", program, stdin=text, cwd=project).returncode == 0


@pytest.mark.parametrize("program", ["claude", "gemini"])  # the shell of Gemini switches git's hooks off
def test_a_commit_of_what_another_holds_is_refused_before_git_is_asked(
    project: Path, claims: Claims, program: str
) -> None:
    (project / "src/a/b.ts").write_text("changed")
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    said = ask(project, program, "run_shell_command", {"command": "git commit --no-verify -m x"})
    assert said is not None and "src/a/b.ts" in said["reason"]


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "opencode", "cursor"])
def test_what_cannot_be_seen_is_asked_or_refused_where_no_one_can_be_asked(
    project: Path, claims: Claims, program: str
) -> None:
    said = ask(project, program, "Bash", {"command": "python3 -c 'import x' &"})
    assert said is not None and "in the background" in json.dumps(said) and "HEIMDALL" not in json.dumps(said)
    verdict = said["permission"] if program == "cursor" else said["hookSpecificOutput"]["permissionDecision"]
    assert verdict == ("ask" if program in ("claude", "cursor") else "deny")
    assert ("decision" in said) == (program in ("codex", "gemini", "opencode"))
    claims.release(BOB)
    assert ask(project, program, "Bash", {"command": "python3 -c 'import x' &"}) in (None, {})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("mcp__files__write_file", {"path": "src/a/b.ts"}),
        ("mcp__files__move_file", {"source": "src/a/b.ts", "destination": "x"}),
        ("mcp_files_edit_files", {"paths": ["README", "src/a/b.ts"]}),
        ("mcp__files__delete", {"directory": "src"}),
        ("mcp__files__rename", {"old": "src/a/b.ts", "new": "x"}),
        ("mcp__files__write", {"base": "src/a", "content": "x"}),
        ("mcp__files__write", {"name": "src/a/b.ts"}),
        ("mcp__files__edit", {"path": "src/**/*.ts"}),
        ("mcp__shell__start_process", {"command": "tee", "args": ["src/a/b.ts"]}),
    ],
)
def test_the_file_tools_of_mcp_servers_are_bound_too(
    project: Path, claims: Claims, tool: str, arguments: dict[str, Any]
) -> None:
    assert ask(project, "claude", tool, arguments) is not None
    for reader in ("mcp__files__read_file", "mcp_files_list_directory", "LSP", "mcp__ide__getDiagnostics"):
        assert ask(project, "claude", reader, {"path": "src/a/b.ts"}) is None
    assert ask(project, "qwen", "run_shell_command", {"command": "ls", "directory": str(project)}) is None


@pytest.mark.parametrize(
    ("given", "cwd", "session", "tool", "command", "writes"),
    [
        (
            {"cwd": "/w", "sessionId": "s", "toolName": "shell", "toolArgs": {"cmd": ["ls", 3]}},
            "/w",
            "s",
            "shell",
            "ls 3",
            [],
        ),
        (
            {"cwd": "/w", "session_id": "a", "sessionId": "b", "tool": "edit", "tool_input": {"path": "x"}},
            "/w",
            "a",
            "edit",
            "",
            ["/w/x"],
        ),
        (
            {"cwd": "/w", "tool_name": "Write", "tool_input": {"file_path": "/x", "path": ["a", 3, "/x"]}},
            "/w",
            "",
            "Write",
            "",
            ["/x", "/w/a"],
        ),
        (
            {"cwd": "/w", "tool_name": "update_issue", "tool_input": {"path": "x"}},
            "/w",
            "",
            "update_issue",
            "",
            ["/w/x"],
        ),
        ({"cwd": "/w", "tool_name": "Write", "tool_input": {"command": "ls"}}, "/w", "", "Write", "", []),
        ({"workspace_roots": [], "tool_input": 3}, None, "", "", "", []),
    ],
)
def test_a_call_is_read_in_the_words_of_each_program(
    given: dict[str, Any], cwd: str | None, session: str, tool: str, command: str, writes: list[str]
) -> None:
    call = OutsideCall("codex", given)
    assert (call.cwd, call.session, call.tool) == (cwd or os.getcwd(), session, tool)
    assert call.event == "PreToolUse" and (call.does.command, call.writes()) == (command, writes)


def test_a_revoked_agent_may_do_nothing_and_a_note_is_for_those_who_read_it(project: Path, claims: Claims) -> None:
    claims.release(BOB)
    assert ask(project, "gemini", "Write", {"file_path": "x"}, "g1") is None
    binding = claims.bindings.find_key("gemini:g1")
    assert binding is not None
    claims.claim(binding.haid, ["src"], "T-2")
    claims.waits.put(BOB, ["src/a"], "T-3", [binding.haid])
    assert ask(project, "gemini", "Write", {"file_path": "src/a/b.ts"}, "g1") is None, "it reads no notes"
    claims.agents.register(binding.haid)
    claims.agents.revoke(binding.haid)
    said = ask(project, "gemini", "Read", {"file_path": "x"}, "g1")
    assert said is not None and said["reason"] == f"{binding.haid} has been revoked"
