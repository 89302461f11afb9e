"""Claims enforced on the native agent."""

import json
import os
from pathlib import Path

import pytest

from tests.coordination.conftest import git, grow_old
from tests.coordination.corpus import WRITING_CALLS
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.guard import Guarded
from treadle.coordination.planning import Planning
from treadle.errors import Busy, Denied
from treadle.io.files import locked
from treadle.policy.guess import access_of
from treadle.session import Access

ANN, BOB = "haid:ann.box-0001/native", "haid:bob.box-0002"


@pytest.fixture
def guarded(project: Path) -> Guarded:
    return Guarded(Planning(project=str(project)), ANN)


def write(project: Path, name: str) -> Access:
    return Access(tool="Write", kind="write", paths=(str(project / name),))


def test_a_write_to_what_another_holds_is_denied_with_who_and_until_when(
    guarded: Guarded, claims: Claims, project: Path
) -> None:
    decision = guarded.judge(write(project, "src/a/b.ts"))
    assert (decision.verdict, decision.by) == ("deny", "claim")
    assert BOB in decision.reason and "T-1" in decision.reason and "until" in decision.reason
    assert guarded.judge(write(project, "docs/x")).verdict == "allow"
    assert guarded.judge(Access(tool="Read", kind="read", paths=(str(project / "src/a/b.ts"),))).verdict == "allow"
    assert guarded.judge(write(project, "../outside")).verdict == "allow"


def test_a_directory_is_covered_by_what_is_claimed_inside_it(guarded: Guarded, claims: Claims, project: Path) -> None:
    assert guarded.judge(write(project, "src")).verdict == "deny"


def test_one_may_write_what_one_holds_and_what_nobody_holds(guarded: Guarded, claims: Claims, project: Path) -> None:
    claims.claim(ANN, ["docs"], "T-2")
    for name in ("docs/x.md", "README.md"):
        with guarded.writing((str(project / name),)):
            pass


def test_while_a_tool_writes_nobody_can_claim(guarded: Guarded, claims: Claims, project: Path) -> None:
    with guarded.writing((str(project / "docs/x.md"),)):
        with pytest.raises(Busy):
            with locked(guarded.claims.planning.live_path(".locks", "claims"), 0):
                pass
        assert os.path.isdir(guarded.claims.planning.path("ledger", "claims.lock"))
    with pytest.raises(Collision):
        guarded.claims.claim(BOB, ["docs"], "T")
        with guarded.writing((str(project / "docs/x.md"),)):
            raise AssertionError("must not write")


def test_a_revoked_identity_may_write_nothing(guarded: Guarded, project: Path) -> None:
    guarded.claims.agents.register(ANN)
    guarded.claims.agents.revoke(ANN)
    assert guarded.judge(write(project, "x")).verdict == "deny"
    assert guarded.judge(Access(tool="Bash", kind="execute", command="ls")).verdict == "deny"
    with pytest.raises(Denied):
        with guarded.writing((str(project / "x"),)):
            raise AssertionError("must not write")


@pytest.mark.parametrize("another_begins", [False, True])
@pytest.mark.parametrize("what", ["change", "add", "remove", "replace", "set the time back", "mode"])
def test_what_a_command_did_under_anothers_claim_is_noticed(
    guarded: Guarded, claims: Claims, project: Path, what: str, another_begins: bool
) -> None:
    file = project / "src/a/b.ts"
    guarded.watch()
    if what == "change":
        file.write_text("changed by a shell command\n")
    elif what == "add":
        (project / "src/a/new.ts").write_text("new")
    elif what == "remove":
        file.unlink()
    elif what == "set the time back":
        old = file.stat()
        file.write_text(file.read_text().swapcase())
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    elif what == "mode":
        file.chmod(0o755)
    else:
        (project / "tmp").write_text("another")
        os.replace(project / "tmp", file)
    if another_begins:
        guarded.watch()
    with pytest.raises(Denied, match=r"src/a/(b|new)\.ts"):
        guarded.check()


def test_what_a_command_did_elsewhere_is_its_own_business(guarded: Guarded, claims: Claims, project: Path) -> None:
    guarded.watch()
    (project / "docs").mkdir()
    (project / "docs/x.md").write_text("x")
    (project / "src/other.ts").write_text("x")
    git(project, "status")
    guarded.check()


def test_a_glob_is_watched_where_it_can_match(guarded: Guarded, claims: Claims, project: Path) -> None:
    claims.claim(BOB, ["{src,lib}/**/*.ts", "x.md#part"], "T-1")
    (project / "x.md").write_text("one")
    guarded.watch()
    (project / "x.txt").write_text("fine")
    guarded.check()
    guarded.watch()
    (project / "x.md").write_text("three")
    with pytest.raises(Denied, match="x.md"):
        guarded.check()


def test_what_agents_coordinate_with_is_under_nobodys_claim(guarded: Guarded, claims: Claims, project: Path) -> None:
    claims.claim(BOB, ["**"], "T-1")
    guarded.watch()
    guarded.claims.planning.log("capsule", "write", "by a shell command")
    git(project, "add", ".")
    guarded.check()
    assert guarded.judge(write(project, ".planning/ledger/completed/T-1.md")).verdict == "allow"
    assert guarded.judge(write(project, ".planning/../x")).verdict == "deny"


def test_what_was_claimed_or_released_meanwhile_is_not_held_against_it(
    guarded: Guarded, claims: Claims, project: Path
) -> None:
    guarded.watch()
    claims.claim("haid:carl.box-0003", ["src/other.ts", "docs"], "T-3")
    (project / "src/other.ts").write_text("x")
    claims.release(BOB)
    (project / "src/a/b.ts").write_text("released by then")
    guarded.check()


def test_a_path_that_is_not_absolute_is_seen_from_where_the_agent_works(project: Path, claims: Claims) -> None:
    inside = Guarded(Planning(project=str(project / "src")), ANN)
    assert inside.judge(Access(tool="bash", kind="write", paths=("a/b.ts",))).verdict == "deny"


def test_what_a_command_does_beyond_its_files_is_asked_about_unless_it_is_confined(
    guarded: Guarded, claims: Claims, project: Path
) -> None:
    assert guarded.judge(Access(tool="bash", kind="execute", command="python3 -c 'import x'")).verdict == "allow"
    hidden = Access(tool="bash", kind="execute", command="python3 -c 'import x' &")
    asked = guarded.judge(hidden)
    assert (asked.verdict, asked.by) == ("ask", "claim") and "the command does not show" in asked.reason
    confined = Guarded(Planning(project=str(project)), ANN, confined=True)
    assert confined.judge(hidden).verdict == "allow"
    assert confined.judge(Access(tool="bash", kind="execute", command="rm src/a/b.ts")).verdict == "deny"
    (Path(claims.directory) / "broken.json").write_text("{")
    unseen = guarded.judge(write(project, "docs/x"))
    assert unseen.verdict == "ask" and "others' claims cannot be read" in unseen.reason


def test_outside_a_repository_nothing_is_made(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    alone = Guarded(Planning(project=str(plain)), ANN)
    with alone.writing((str(plain / "x"),)):
        pass
    assert list(plain.iterdir()) == [] and alone.holding() == {}
    assert alone.judge(Access(tool="Write", kind="write", paths=("x",))).verdict == "allow"


def test_one_who_writes_is_still_there_afterwards(guarded: Guarded, claims: Claims, project: Path) -> None:
    guarded.claims.claim(ANN, ["docs"], "T-2")
    mine = guarded.claims.of(ANN)
    assert mine is not None
    grow_old(guarded.claims, ANN)
    before = Path(mine.path).read_text()
    with guarded.writing((str(project / "README"),)):
        pass
    assert Path(mine.path).read_text() != before


def test_who_holds_a_symbol_of_a_file_is_not_kept_out_of_it(guarded: Guarded, claims: Claims, project: Path) -> None:
    (project / "x.ts").write_text("")
    claims.claim(BOB, ["x.ts#theirs"], "T-1")
    assert str(project / "x.ts") in guarded.holding()
    guarded.claims.claim(ANN, ["x.ts#mine"], "T-2")
    assert str(project / "x.ts") not in guarded.holding()


def test_a_call_of_a_driven_agent_is_judged_as_its_hook_would(guarded: Guarded, claims: Claims, project: Path) -> None:
    calls = [(tool, json.loads(json.dumps(given).replace("TOP", str(project)))) for _, tool, given in WRITING_CALLS]
    assert [call for call in calls if guarded.judge(access_of(*call)).verdict != "deny"] == []
    claims.release(BOB)
    assert [call for call in calls if guarded.judge(access_of(*call)).verdict != "allow"] == []
