"""heimdall-claim, as people and programs read it; what a claim holds is in tests/coordination/test_claims.py."""

import json
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git, trail
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


@pytest.mark.parametrize("words", [["x"], ["x", "--task", "T", "--ttl", "soon"], ["x", "--task", "T", "--ttl", "٣"]])
def test_what_is_typed_wrongly_changes_nothing_and_ends_with_2(heimdall: Run, project: Path, words: list[str]) -> None:
    done = heimdall("claim", "claim", *words, HEIMDALL_HAID=ANN)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr
    assert heimdall("claim", "list").stdout == "(no active claims)\n"


def test_what_another_only_reads_can_be_read_too_but_not_taken(heimdall: Run) -> None:
    made = heimdall("claim", "claim", "src", "--task", "T-1", "--shared", HEIMDALL_HAID=ANN)
    assert "\nshared, fence 1, expires_at " in made.stdout
    assert heimdall("claim", "check", "src", "--shared", HEIMDALL_HAID=BOB).returncode == 0
    assert heimdall("claim", "check", "src", HEIMDALL_HAID=BOB).returncode == 3
    found = json.loads(heimdall("claim", "check", "src", "--json", HEIMDALL_HAID=BOB).stdout)
    assert found["clear"] is False and len(found["overlaps"]) == 1 and "unseen" not in found
    assert heimdall("claim", "check", "src", "--haid", ANN, HEIMDALL_HAID=BOB).returncode == 0


def test_a_wait_ends_when_no_one_holds_it_any_more_or_after_its_time(heimdall: Run) -> None:
    heimdall("claim", "claim", "src", "--task", "T-1", HEIMDALL_HAID=ANN)
    late = heimdall("claim", "wait", "src", "--timeout", "0", HEIMDALL_HAID=BOB)
    assert late.returncode == 3 and late.stdout == "" and late.stderr.count("waiting: ") == 1
    assert heimdall("claim", "wait", "src", "docs", HEIMDALL_HAID=ANN).stdout == "free: src docs\n"
    assert f"another agent waits for you: {BOB}" in heimdall("claim", "heartbeat", HEIMDALL_HAID=ANN).stderr
    heimdall("claim", "release", HEIMDALL_HAID=ANN)
    assert heimdall("claim", "wait", "src", HEIMDALL_HAID=BOB).stdout == "free: src\n"
    heimdall("claim", "claim", "src", "--task", "T-1", HEIMDALL_HAID=ANN)
    assert heimdall("claim", "heartbeat", HEIMDALL_HAID=ANN).stderr == ""


def test_another_ones_claim_is_only_released_by_force_and_with_a_reason(heimdall: Run, project: Path) -> None:
    heimdall("claim", "claim", "src", "--task", "T-1", HEIMDALL_HAID=ANN)
    for words in ([], ["--force"], ["--reason", "gone"]):
        refused = heimdall("claim", "release", "--haid", ANN, *words, HEIMDALL_HAID=BOB)
        assert refused.returncode == 2 and refused.stdout == ""
    forced = heimdall("claim", "release", "--haid", ANN, "--force", "--reason", "gone", HEIMDALL_HAID=BOB)
    assert forced.stdout == f"released claim for {ANN}\ngiven up: src\n"
    assert "gone" in (project / ".planning" / "ledger" / "decisions.md").read_text()


def test_guards_are_turned_on_and_off(heimdall: Run, project: Path) -> None:
    hooks = [project / ".git" / "hooks" / name for name in ("pre-commit", "pre-push")]
    installed = heimdall("claim", "guard", "install", "--mode", "warn").stdout
    assert installed == "".join(f"installed {path} (warn)\n" for path in hooks)
    assert all(path.exists() for path in hooks)
    assert "absent" not in heimdall("claim", "guard", "status").stdout
    assert heimdall("claim", "guard", "uninstall").stdout == "".join(f"removed {path}\n" for path in hooks)
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: absent\npre-push: absent\n"


def test_a_range_in_a_clone_without_claims_is_not_called_clear(heimdall: Run, project: Path) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "two")
    unknown = heimdall("claim", "check", "--diff", "HEAD~1", HEIMDALL_HAID=BOB)
    assert unknown.returncode == 2 and "no claims were ever made" in unknown.stderr and unknown.stdout == ""
    told = json.loads(heimdall("claim", "check", "--diff", "HEAD~1", "--json", HEIMDALL_HAID=BOB).stdout)
    assert told["clear"] is None and told["overlaps"] == [] and len(told["unseen"]) == 1
    nothing = heimdall("claim", "check", "x", HEIMDALL_HAID=BOB)
    assert nothing.stdout == "clear: no one has claimed anything in this clone\n" and nothing.stderr == ""


def test_the_command_says_it_with_its_exit_codes(heimdall: Run, project: Path) -> None:
    done = heimdall("claim", "claim", "src/a/**", "--task", "T-1", "--ttl", "30", HEIMDALL_HAID=ANN)
    assert done.returncode == 0
    assert done.stdout.startswith(f"claimed 1 surface(s) for {ANN} (task T-1, ttl 30m)\n  src/a/**\n")
    assert "expires_at" in done.stdout
    refused = heimdall("claim", "claim", "src/*/b.ts", "--task", "T-2", HEIMDALL_HAID=BOB)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith("COLLISION:") and "T-1" in refused.stderr and "until 20" in refused.stderr
    assert heimdall("claim", "check", "src/a", HEIMDALL_HAID=BOB).returncode == 3
    assert heimdall("claim", "check", "src/a", HEIMDALL_HAID=ANN).returncode == 0
    assert heimdall("claim", "check", "docs", HEIMDALL_HAID=BOB).stdout == "clear\n"
    assert heimdall("claim", "list").stdout.startswith("ACTIVE CLAIMS (1)\n")
    listed = json.loads(heimdall("claim", "list", "--json").stdout)
    assert json.loads(heimdall("claim", "who", "--json").stdout)[1]["waits"]["holders"] == [ANN]
    assert listed[0]["haid"] == ANN and listed[0]["expires_at"]
    assert json.loads(heimdall("claim", "show", "--haid", ANN, "--json").stdout) == listed[0]
    assert heimdall("claim", "heartbeat", HEIMDALL_HAID=BOB).returncode == 2
    renewed = heimdall("claim", "heartbeat", HEIMDALL_HAID=ANN)
    assert renewed.returncode == 0 and f"waits for you: {BOB} waits for src/*/b.ts" in renewed.stderr
    more = heimdall("claim", "claim", "scr/x.ts", "--task", "T-3", HEIMDALL_HAID=ANN)
    assert "held in all: src/a/** scr/x.ts" in more.stdout and "scr/x.ts matches no file" in more.stderr
    told = heimdall("claim", "release", "scr/x.ts", HEIMDALL_HAID=ANN).stdout
    assert "given up: scr/x.ts\nstill held: src/a/**" in told
    who = heimdall("claim", "who").stdout
    assert f"{ANN}  no session known\n  holds src/a/** (exclusive, task T-1" in who and f"waited for by {BOB}" in who
    assert heimdall("claim", "release", "--haid", ANN, HEIMDALL_HAID=BOB).returncode == 2
    assert heimdall("claim", "release", HEIMDALL_HAID=ANN).stdout == f"released claim for {ANN}\ngiven up: src/a/**\n"
    assert heimdall("claim", "release", HEIMDALL_HAID=ANN).stdout == f"no active claim for {ANN}\n"
    assert heimdall("claim", "list").stdout == "(no active claims)\n"
    assert heimdall("claim", "list", "--json").stdout == "[]\n"
    assert heimdall("claim", "reap").stdout == "reaped 0 expired claim(s); 0 active claim(s) remain\n"


def test_a_claim_through_a_linked_directory_holds_what_the_link_leads_to(heimdall: Run, project: Path) -> None:
    (project / "link").symlink_to("src")
    assert heimdall("claim", "claim", "link/a", "--task", "T", HEIMDALL_HAID=ANN).returncode == 0
    assert heimdall("claim", "check", "src/a/b.ts", HEIMDALL_HAID=BOB).returncode == 3
    assert heimdall("claim", "check", "link/a/b.ts", HEIMDALL_HAID=BOB).returncode == 3
    assert heimdall("claim", "release", "link/a", HEIMDALL_HAID=ANN).returncode == 0
    assert heimdall("claim", "check", "src/a/b.ts", HEIMDALL_HAID=BOB).returncode == 0
    (project / "out").symlink_to("/etc")
    assert heimdall("claim", "claim", "out/passwd", "--task", "T", HEIMDALL_HAID=ANN).returncode == 2


@pytest.mark.parametrize("what", ["missing", "another, with claims here"])
def test_a_planning_directory_that_shows_nothing_is_never_clear(
    heimdall: Run, project: Path, tmp_path: Path, what: str
) -> None:
    place = tmp_path / "elsewhere"
    if what != "missing":
        place.mkdir()
        heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=ANN)
    told = heimdall("claim", "check", "src", HEIMDALL_HAID=BOB, HEIMDALL_PLANNING_DIR=str(place))
    assert told.returncode == 2 and "cannot tell" in told.stderr and "clear" not in told.stdout


def test_looking_is_written_down_too(heimdall: Run, project: Path) -> None:
    heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=ANN)
    for words in (["list"], ["who"], ["show", "--haid", ANN], ["check", "--diff"]):
        heimdall("claim", *words, HEIMDALL_HAID=ANN)
    acts = [row[1:] for row in trail(Planning(str(project / ".planning"))) if row[0] == "claim"]
    assert acts[-4:] == [["list", "1"], ["who", acts[-3][1]], ["show", ANN], ["check", f"{ANN} overlaps=0 --diff "]]
