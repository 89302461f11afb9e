"""What an agent writes is leased to it: others in the same worktree notice, and nothing else is bound."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordination.conftest import BIN, Run, git
from treadle.coordination import identity
from treadle.coordination.claim import MINUTES, Leases
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.guard import Guarded
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001/claude-code", "haid:bob.box-0002/codex"


@pytest.fixture(scope="module")
def other() -> Iterator[identity.Key]:
    """The process of another agent, which runs until all tests here have ended."""
    with subprocess.Popen(["sleep", "600"]) as process:
        key = identity.key_of(process.pid)
        assert key is not None
        yield key
        process.kill()


@pytest.fixture
def leases(project: Path) -> Leases:
    return Claims(Planning(project=str(project)), str(project)).leases


def take(leases: Leases, haid: str, *names: str, process: identity.Key | None) -> list[str]:
    found = leases.take(haid, {haid}, [os.path.join(leases.top, name) for name in names], process)
    return [overlap.held for overlap in found]


def mine() -> identity.Key | None:
    return identity.key_of(os.getpid())


def test_the_second_agent_to_write_a_file_is_refused_with_who_writes_it_and_until_when(
    leases: Leases, other: identity.Key
) -> None:
    assert take(leases, BOB, "src/a/b.ts", "src/new.ts", process=other) == []
    assert take(leases, ANN, "src/a/b.ts", "README", process=mine()) == ["src/a/b.ts"]
    assert take(leases, ANN, "README", process=mine()) == []
    (overlap,) = leases.take(ANN, {ANN}, [os.path.join(leases.top, "src/new.ts")], mine())
    assert BOB in str(overlap) and "writing, lease until" in str(overlap)


def test_it_ends_some_minutes_after_the_last_write(project: Path, other: identity.Key) -> None:
    now = [1_781_179_647.0]
    leases = Leases(Planning(project=str(project), clock=lambda: now[0]), str(project))
    take(leases, BOB, "x", "y", process=other)
    now[0] += (MINUTES - 1) * 60
    take(leases, BOB, "x", process=other)
    now[0] += 2 * 60
    assert take(leases, ANN, "y", process=mine()) == []
    assert take(leases, ANN, "x", process=mine()) == ["x"]


def test_it_ends_with_its_holders_process(leases: Leases) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        take(leases, BOB, "x", process=identity.key_of(process.pid))
        assert take(leases, ANN, "x", process=mine()) == ["x"]
        process.kill()
    assert leases.active() == []
    assert take(leases, ANN, "x", process=mine()) == []
    assert take(leases, BOB, "z", process=None) == [] and [lease.haid for lease in leases.active()] == [ANN]


def test_an_earlier_session_of_the_same_process_and_the_agent_that_started_this_one_are_not_in_the_way(
    leases: Leases,
) -> None:
    take(leases, BOB, "x", process=mine())
    take(leases, BOB, "y", process=identity.key_of(os.getppid()))
    assert take(leases, ANN, "x", "y", process=mine()) == []


def test_it_binds_in_its_own_worktree_only_and_is_listed_in_both(
    leases: Leases, other: identity.Key, project: Path, heimdall: Run
) -> None:
    git(project, "worktree", "add", "-q", "../second")
    second = project.parent / "second"
    take(leases, BOB, "x", process=other)
    there = Claims(Planning(project=str(second)), str(second)).leases
    assert take(there, ANN, "x", process=mine()) == []
    assert f"{BOB}  x  in {project}" in heimdall("claim", "list", cwd=second).stdout
    who = heimdall("claim", "who").stdout
    assert f"writes x in {project} (lease until" in who and f"writes x in {second}" in who
    listed = json.loads(heimdall("claim", "list", "--json").stdout)
    assert {(one["haid"], one["mode"], one["task_ref"]) for one in listed} == {
        (BOB, "lease", "writing"),
        (ANN, "lease", "writing"),
    }


def test_another_session_cannot_claim_what_is_being_written(leases: Leases, other: identity.Key, project: Path) -> None:
    claims = Claims(Planning(project=str(project)), str(project))
    claims.bindings.note(ANN, (1, 1))
    take(leases, BOB, "src/x", process=other)
    with pytest.raises(Collision, match="lease until"):
        claims.claim(ANN, ["src/**"], "T-1")
    assert claims.claim(ANN, ["src/**"], "T-1", shared=True).texts == ["src/**"]


def test_a_persons_claim_is_stronger_and_they_are_told_who_writes_there(
    leases: Leases, other: identity.Key, project: Path, heimdall: Run
) -> None:
    take(leases, BOB, "src/x", process=other)
    made = heimdall("claim", "claim", "src/**", "--task", "T-1", HEIMDALL_HAID=ANN)
    assert made.returncode == 0 and f"{BOB} is writing src/x; its next write is refused" in made.stderr
    with pytest.raises(Collision, match="T-1"):
        with Guarded(Planning(project=str(project)), BOB).writing((str(project / "src/x"),)):
            raise AssertionError("must not write")


def test_commits_are_not_bound_by_leases(leases: Leases, other: identity.Key, project: Path, heimdall: Run) -> None:
    assert heimdall("claim", "guard", "install").returncode == 0
    (project / "src/a/b.ts").write_text("export const x = 1\n")
    take(leases, BOB, "src/a/b.ts", process=other)
    git(project, "commit", "-qam", "what Bob's agent wrote")


def test_off_means_that_none_is_taken_and_none_binds(leases: Leases, other: identity.Key, heimdall: Run) -> None:
    take(leases, BOB, "x", process=other)
    assert heimdall("claim", "leases", "off").stdout == "off\n"
    assert take(leases, ANN, "x", process=mine()) == [] and leases.active() == []
    assert heimdall("claim", "leases", "on").stdout == "on\n"
    assert [lease.haid for lease in leases.active()] == [BOB]
    assert heimdall("claim", "leases").returncode == 2


def test_a_release_of_all_gives_leases_up_too(leases: Leases, other: identity.Key, heimdall: Run) -> None:
    take(leases, BOB, "x", process=other)
    heimdall("claim", "release", HEIMDALL_HAID=BOB)
    assert leases.active() == []


def test_damaged_leases_and_files_outside_are_ignored(leases: Leases, other: identity.Key, project: Path) -> None:
    take(leases, BOB, "x", process=other)
    (Path(leases.directory) / "junk.json").write_text("{")
    (Path(leases.directory) / "half.json").write_text('{"haid": "haid:a.b-0001", "process": [1, "x"]}')
    take(leases, BOB, "/tmp/elsewhere", ".git/config", ".planning/x", "src", process=other)
    assert [lease.texts for lease in leases.active()] == [["x"]]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0\n\r\t", exclude_categories=["Cs"]), min_size=1)


@given(name=NAMES.filter(lambda name: name not in (".", "..", ".git", ".planning")), other_name=NAMES)
def test_a_lease_means_just_one_path_whatever_its_name(
    tmp_path_factory: pytest.TempPathFactory, other: identity.Key, name: str, other_name: str
) -> None:
    top = str(tmp_path_factory.mktemp("w"))
    leases = Leases(Planning(os.path.join(top, ".planning"), project=top), top)
    take(leases, BOB, name[:60], process=other)
    assert take(leases, ANN, name[:60], process=mine()) != []
    if other_name[:60] != name[:60]:
        assert take(leases, ANN, other_name[:60], process=mine()) == []


WRITER = """
import sys, os
from treadle.coordination.identity import key_of
from treadle.coordination.claim import Leases
from treadle.coordination.planning import Planning
top, haid = sys.argv[1:]
sys.stdin.readline()
leases = Leases(Planning(project=top), top)
found = leases.take(haid, {haid}, [os.path.join(top, "x")], key_of(os.getpid()))
print("refused" if found else "taken", flush=True)
sys.stdin.readline()
"""


def test_of_many_that_write_at_once_one_gets_the_file(project: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(project)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*command, f"haid:bob.box-000{n}/x"], **pipes) for n in range(6)]  # type: ignore[call-overload]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.stdout.readline().strip() for writer in writers]
    for writer in writers:
        writer.communicate("end\n", timeout=60)
    assert sorted(said) == ["refused"] * 5 + ["taken"]


PROGRAM = """
import subprocess, sys
for line in sys.stdin:
    subprocess.run(sys.argv[1:], input=line, text=True)
    print("done", flush=True)
"""


def program(project: Path) -> "subprocess.Popen[str]":
    """An agent program that runs its hook for each line that it is given."""
    command = [sys.executable, "-c", PROGRAM, str(BIN / "treadle"), "coord", "hook", "codex"]
    return subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asks(agent: "subprocess.Popen[str]", project: Path, session: str, tool: str, **arguments: str) -> str:
    said = {"session_id": session, "cwd": str(project), "tool_name": tool, "tool_input": arguments}
    assert agent.stdin is not None and agent.stdout is not None
    agent.stdin.write(json.dumps(said) + "\n")
    agent.stdin.flush()
    lines = list(iter(lambda: agent.stdout.readline().strip() if agent.stdout else "done", "done"))
    return "".join(lines)


def test_two_agents_that_never_claim_notice_each_other_by_their_hooks(project: Path, heimdall: Run) -> None:
    heimdall("setup", "codex")
    with program(project) as one, program(project) as two:
        assert asks(one, project, "s1", "Write", file_path="src/a/b.ts") == ""
        assert asks(one, project, "s1", "Bash", command="sed -i s/a/b/ src/other.ts") == ""
        for tool, more in (
            ("Write", {"file_path": "src/a/b.ts"}),
            ("Bash", {"command": "echo x > src/other.ts"}),
            ("Bash", {"command": "rm -r src"}),
        ):
            refused = json.loads(asks(two, project, "s2", tool, **more))
            assert "lease until" in refused["reason"] and "/codex" in refused["reason"], more
        assert asks(two, project, "s2", "Bash", command="python -c 'print(1)'") == ""
        assert asks(two, project, "s2", "Write", file_path="src/third.ts") == ""
        assert "waits for src since" in asks(one, project, "s1", "Write", file_path="src/a/b.ts")
        one.communicate(timeout=60)
        assert "is free now: src" in asks(two, project, "s2", "Write", file_path="src/a/b.ts")
        two.communicate(timeout=60)
