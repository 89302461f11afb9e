"""What all `heimdall-*` commands share; and `treadle coord`: the same under one program, setup and the hook."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, Run, git
from treadle.cli.heimdall import hook
from treadle.cli.heimdall.table import COMMANDS


def test_treadle_coord_is_the_same_commands(heimdall: Run, project: Path) -> None:
    def coord(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [str(BIN / "treadle"), "coord", *arguments]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, input=stdin)

    assert coord("resolve", "set", "F1", "x").stdout == "F1 = x\n"
    assert heimdall("resolve", "F1").stdout == "x\n"
    assert coord("resolve", "F9").returncode == 1
    assert coord("resolve", "--help").stdout == heimdall("resolve", "--help").stdout
    assert coord("validate", stdin="{").stdout == '{"valid":false,"errors":["unparseable JSON"]}\n'
    overview = coord()
    assert overview.returncode == 0 and all(name in overview.stdout for name in COMMANDS)
    assert coord("nonsense").returncode == 2


def files(top: Path) -> dict[str, bytes]:
    found = [path for path in top.rglob("*") if path.is_file() and ".git" not in path.relative_to(top).parts[:1]]
    return {str(path.relative_to(top)): path.read_bytes() for path in found if ".planning" not in path.parts}


@pytest.fixture
def beside(project: Path) -> Path:
    (project / "AGENTS.md").write_text("# Ours\r\n\nKeep.")
    return project


def test_a_dry_run_shows_the_difference_and_changes_nothing(heimdall: Run, beside: Path) -> None:
    before = files(beside)
    done = heimdall("setup", "codex", "--dry-run")
    assert done.returncode == 0 and "+++ " in done.stdout and "AGENTS.md" in done.stdout
    assert files(beside) == before


def test_it_is_set_up_once_and_taken_out_as_it_was(heimdall: Run, beside: Path) -> None:
    before = files(beside)
    first = heimdall("setup", "codex", "--no-guard")
    assert first.returncode == 0 and f"changed {beside}/AGENTS.md" in first.stdout and files(beside) != before
    again = heimdall("setup", "codex", "--no-guard")
    assert "wrote" not in again.stdout and f"unchanged {beside}/AGENTS.md" in again.stdout
    shown = heimdall("setup", "codex", "--remove", "--dry-run")
    assert f"would take our part out of {beside}/AGENTS.md" in shown.stdout and files(beside) != before
    assert heimdall("setup", "codex", "--remove").returncode == 0
    assert files(beside) == before
    assert heimdall("setup", "codex", "--remove").stdout == "codex was not set up here\n"


def test_commits_are_checked_unless_that_is_not_wanted_and_then_it_says_so(heimdall: Run, project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    done = heimdall("setup", "claude", "--no-guard")
    assert "commits are not checked yet" in done.stderr and not hook.exists()
    assert "(block)" in heimdall("setup", "claude").stdout and hook.exists()


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


@pytest.mark.parametrize("given", ["{", "[]", "", "[" * 100_000])
def test_what_is_no_call_is_refused_where_somebody_claims_and_else_goes_on(heimdall: Run, given: str) -> None:
    done = heimdall("hook", "claude", stdin=given)
    assert (done.returncode, done.stdout) == (0, "")
    heimdall("claim", "claim", "docs", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002")
    for program in ("claude", "cursor"):
        done = heimdall("hook", program, stdin=given)
        assert done.returncode == 0 and '"deny"' in done.stdout and "could not be checked" in done.stdout


@pytest.mark.parametrize("cwd", ["second", "."])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Write", {"file_path": "{top}/src/a/b.ts"}),
        ("mcp__fs__put", {"what": ["{top}/src/a/b.ts"]}),
        ("Bash", {"command": "echo x > {top}/src/a/b.ts"}),
        ("Bash", {"command": "git -C {top} checkout main -- ."}),
        ("Bash", {"command": "git --git-dir={top}/.git --work-tree={top} reset --hard"}),
    ],
)
def test_what_is_held_in_another_checkout_is_refused_from_this_one_and_from_outside(
    heimdall: Run, project: Path, tmp_path: Path, cwd: str, tool: str, given: dict[str, Any]
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "second"))
    heimdall("claim", "claim", "src/a", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002")
    filled = json.loads(json.dumps(given).replace("{top}", str(project)))
    place = tmp_path / cwd
    made = json.dumps({"tool_name": tool, "tool_input": filled, "session_id": "s", "cwd": str(place)})
    assert '"permissionDecision"' in heimdall("hook", "claude", stdin=made, cwd=place).stdout
    other = json.dumps({**json.loads(made), "tool_name": "Write", "tool_input": {"file_path": f"{project}/docs/x.md"}})
    assert "permissionDecision" not in heimdall("hook", "claude", stdin=other, cwd=place).stdout


def test_a_look_that_takes_too_long_refuses_the_write(
    heimdall: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that are a pipe which nobody writes to are never read to their end."""
    heimdall("claim", "claim", "docs", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002")
    (project / ".git/config").unlink()
    os.mkfifo(project / ".git/config")
    monkeypatch.setattr(hook, "SECONDS", 1)
    assert "could not be checked" in heimdall("hook", "claude", stdin=call(project)).stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_does_its_work_whatever_streams_are_missing(heimdall: Run, project: Path, closed: str) -> None:
    command = f'"{BIN}/heimdall-resolve" set F1 x {closed}; echo $?; "{BIN}/heimdall-validate" {closed}; echo $?'
    done = subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, text=True, input="{}")
    assert [line for line in done.stdout.splitlines() if line.isdecimal()] == ["0", "1"] and done.stderr == ""
    assert heimdall("resolve", "F1").stdout == "x\n"


def test_output_that_cannot_be_written_is_said_in_one_line(project: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for arguments in (["--help"], ["list"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [str(BIN / "heimdall-claim"), *arguments], cwd=project, stdout=full, stderr=subprocess.PIPE, env=env
            )
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_light(name: str) -> None:
    code = f"import sys; from treadle.cli.heimdall.table import find; find({name!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"msgspec", "asyncio", "dataclasses", "psutil", "tomllib", "click", "inspect", "typing"}
    assert not heavy & set(loaded.split())


def test_a_reader_that_goes_away_is_not_an_error_message(heimdall: Run, project: Path) -> None:
    heimdall("resolve", "set", "F1", "x" * 100_000)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([str(BIN / "heimdall-resolve"), "F1"], stdout=write, stderr=subprocess.PIPE, cwd=project)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_read_only_directory_is_said_and_nothing_is_lost(heimdall: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = heimdall("resolve", "set", "F1", "x", HEIMDALL_PLANNING_DIR=str(tmp_path / "file"))
    assert done.returncode == 2 and "cannot" in done.stderr and "Traceback" not in done.stderr


# The reference pages...

DOCS = Path(__file__).parents[3] / "docs" / "reference"
ONLY_TREADLE = [f"treadle coord {name}" for name in ("setup", "hook", "allow", "message")]


@pytest.mark.parametrize("name", [*(f"heimdall-{name}" for name in COMMANDS), *ONLY_TREADLE])
def test_the_reference_lists_every_command(name: str) -> None:
    assert f"`{name}`" in (DOCS / "heimdall-commands.md").read_text()


def test_the_reference_has_every_message_and_every_tool() -> None:
    from treadle.coordination.mcp import ALL
    from treadle.wire.heimdall.messages import TYPES

    protocol, server = ((DOCS / name).read_text() for name in ("coordination-protocol.md", "ledger-mcp.md"))
    assert [name for name in TYPES if f"`{name}`" not in protocol] == []
    assert [tool.name for tool in ALL if f"`{tool.name}`" not in server] == []
