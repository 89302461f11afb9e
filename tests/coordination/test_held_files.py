"""What an outside agent's call did to files that others hold is put back, or left to its holder; both are told."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import git, here
from tests.coordination.test_pretool import BOB, ask
from treadle.coordination import guard
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

HIDDEN = "python3 -c 'import x'"
"""It does not show what it writes."""
HELD = "export {}\n"
"""What is in src/a/b.ts."""


def call(project: Path, does: str, shown: str = HIDDEN, program: str = "claude", session: str = "s1") -> str:
    """What is told after a call that shows one command and does another."""
    assert ask(project, program, "Bash", {"command": shown}, session) in (None, {})
    subprocess.run(["sh", "-c", does], cwd=project, check=True)
    return over(project, program, session)


def over(project: Path, program: str = "claude", session: str = "s1") -> str:
    said = {"session_id": session, "cwd": str(project), "hook_event_name": "PostToolUse", "tool_name": "Bash"}
    done = here("hook", program, stdin=json.dumps(said), cwd=project)
    found = json.loads(done.stdout) if done.stdout else {}
    return str(found.get("systemMessage", found.get("additional_context", "")))


def state(project: Path) -> list[tuple[str, str, int]]:
    found = sorted(path for path in (project / "src").rglob("*") if path.is_file())
    return [(str(path.relative_to(project)), path.read_text(), path.stat().st_mode) for path in found]


@pytest.mark.parametrize("program", ["claude", "gemini", "cursor"])
@pytest.mark.parametrize(
    "does",
    [
        "echo x > src/a/b.ts",
        "rm src/a/b.ts",
        "echo x > src/a/new.ts",
        "chmod 777 src/a/b.ts",
        "rm -r src; ln -s docs src",
        "rm src/a/b.ts; mkdir src/a/b.ts",
        "mv src/a src/c",
    ],
)
def test_what_a_call_did_is_put_back_and_told_to_its_agent_and_in_the_decisions(
    project: Path, claims: Claims, program: str, does: str
) -> None:
    before = state(project)
    told = call(project, does, program=program)
    assert BOB in told and "T-1" in told and "put back" in told
    assert [one for one in state(project) if one[0].startswith("src/a/")] == before
    assert "was put back" in (project / ".planning/ledger/decisions.md").read_text()
    assert over(project, program) == ""


def test_a_new_file_under_a_held_pattern_is_told(project: Path, claims: Claims) -> None:
    claims.release(BOB)
    claims.claim(BOB, ["src/pay/*.py"], "T-1")
    assert ask(project, "claude", "Bash", {"command": "echo x > src/pay/new.py"}) is not None
    told = call(project, "mkdir src/pay; echo x > src/pay/new.py")
    assert "src/pay/new.py, which" in told and "was made" in told and not (project / "src/pay/new.py").exists()


def test_what_it_had_become_is_kept(project: Path, claims: Claims) -> None:
    told = call(project, "echo mine > src/a/b.ts")
    (place,) = [word.rstrip(".") for word in told.split() if "/changed-" in word]
    assert Path(place.rstrip(".")).read_text() == "mine\n"


@pytest.mark.parametrize(("seconds", "stays"), [(guard.RETAINED_SECONDS, True), (-1.0, False)])
def test_what_it_had_become_is_kept_for_a_week_however_much_there_is(
    project: Path, claims: Claims, monkeypatch: pytest.MonkeyPatch, seconds: float, stays: bool
) -> None:
    monkeypatch.setattr(guard, "RETAINED_SECONDS", seconds)
    monkeypatch.setattr(guard, "MOST_FILES", 2)
    told = [call(project, f"echo {each} > src/a/b.ts") for each in range(6)]
    (place,) = [word.rstrip(".") for word in told[0].split() if "/changed-" in word]
    assert os.path.exists(place) == stays


@pytest.mark.parametrize("surface", ["src/a/b.ts", "src/a/**", "src/new/b.ts", "**/b.ts"])
@pytest.mark.parametrize("does", ["rm -r src/a; ln -s {0} src/a", "ln -s {0} src/new"])
def test_nothing_is_moved_or_written_behind_a_link(
    project: Path, claims: Claims, tmp_path: Path, surface: str, does: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b.ts").write_text("outside\n")
    claims.release(BOB)
    claims.claim(BOB, [surface], "T-1")
    call(project, does.format(tmp_path / "outside"))
    assert [(path.name, path.read_text()) for path in (tmp_path / "outside").iterdir()] == [("b.ts", "outside\n")]
    assert (project / "src/a/b.ts").read_text() == ("outside\n" if surface == "src/new/b.ts" and "a;" in does else HELD)


def test_a_directory_that_was_a_link_before_stays_one(project: Path, claims: Claims) -> None:
    os.symlink("src", project / "lib")
    claims.release(BOB)
    claims.claim(BOB, ["lib/a/b.ts"], "T-1")
    assert "put back" in call(project, "echo x > lib/a/b.ts")
    assert (project / "lib").is_symlink() and (project / "src/a/b.ts").read_text() == HELD


def test_what_is_not_held_or_is_the_same_afterwards_is_not_spoken_of(project: Path, claims: Claims) -> None:
    assert call(project, "echo x > README; touch src/a/b.ts; cp src/a/b.ts t; mv t src/a/b.ts") == ""


def test_a_change_that_may_be_the_holder_s_own_is_left_and_told(project: Path, claims: Claims) -> None:
    told = call(project, "echo bob > src/a/b.ts", shown="make test")  # a person holds it, and no text speaks against it
    assert "perhaps by its holder" in told and (project / "src/a/b.ts").read_text() == "bob\n"
    claims.release(BOB)
    ask(project, "claude", "Write", {"file_path": "x"}, "holder")
    binding = claims.bindings.find_key("claude:holder")
    assert binding is not None
    claims.claim(binding.haid, ["src/a/**"], "T-2")
    ask(project, "claude", "Bash", {"command": "make all"}, "holder")  # it is at work
    assert "perhaps by its holder" in call(project, "echo 2 > src/a/b.ts")
    over(project, session="holder")
    assert "put back" in call(project, "echo 3 > src/a/b.ts", shown="make test")
    assert (project / "src/a/b.ts").read_text() == "2\n"


@pytest.mark.parametrize(("tool", "arguments"), [("Bash", {"command": "ls"}), ("mcp__x__y", {}), ("Read", {})])
def test_what_the_holder_does_between_the_calls_of_another_is_its_own(
    project: Path, claims: Claims, tool: str, arguments: dict[str, str]
) -> None:
    assert call(project, "true") == ""
    (project / "src/a/b.ts").write_text("bob\n")
    assert ask(project, "claude", tool, arguments) in (None, {})
    assert over(project) == "" and (project / "src/a/b.ts").read_text() == "bob\n"


def test_the_end_of_a_call_that_looks_hides_no_other(project: Path, claims: Claims) -> None:
    ask(project, "claude", "Bash", {"command": HIDDEN})
    ask(project, "claude", "Bash", {"command": "ls"})
    over(project)
    (project / "src/a/b.ts").write_text("x")
    assert "put back" in over(project)


def test_a_holder_in_another_worktree_changes_nothing_here(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    Claims(Planning(project=str(tmp_path / "other")), str(tmp_path / "other")).claim(BOB, ["src"], "T-1")
    assert "put back" in call(project, "echo x > src/a/b.ts", shown="make test")
    committed = call(project, "echo x > src/a/b.ts && git commit -qam x --no-verify", shown="git pull")
    assert "as in the commit that is checked out" in committed and (project / "src/a/b.ts").read_text() == "x\n"


def test_where_no_end_of_a_call_was_told_the_next_one_is_told_or_refused(project: Path, claims: Claims) -> None:
    for program in ("claude", "gemini"):
        assert ask(project, program, "Bash", {"command": HIDDEN}) is None
        (project / "src/a/b.ts").write_text(program)
        said = ask(project, program, "Bash", {"command": "make"})
        assert said is not None and "While your last call ran" in json.dumps(said)
        assert ("decision" in said) == (program == "gemini")
        over(project, program)


@pytest.mark.parametrize(
    "command", [f"{HIDDEN} &", f"nohup {HIDDEN}", "git branch -f main HEAD", "git config alias.x y"]
)
def test_what_a_look_afterwards_would_not_show_is_asked(project: Path, claims: Claims, command: str) -> None:
    assert ask(project, "claude", "Bash", {"command": command}) is not None


def test_where_more_is_held_than_can_be_kept_it_is_asked(
    project: Path, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_BYTES", 3)
    said = ask(project, "claude", "Bash", {"command": HIDDEN})
    assert said is not None and said["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert ask(project, "claude", "Bash", {"command": "make"}) is None
    os.unlink(project / "src/a/b.ts")
    assert "too large" in over(project)
