"""Live state is safe from git's clean, stash, checkout and worktrees; other tools find it through `.planning`."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


def held(project: Path) -> list[tuple[str, int]]:
    return [(claim.haid, claim.fence) for claim in Claims(Planning(project=str(project))).active()]


@pytest.mark.parametrize(
    "words",
    [
        ["stash", "-u"],
        ["clean", "-fd"],
        ["clean", "-fdx"],
        ["checkout", "-q", "-f", "other"],
        ["reset", "-q", "--hard"],
        ["rebase", "-q", "other"],
    ],
    ids=" ".join,
)
def test_no_claim_is_lost_whatever_git_does_to_the_worktree(claims: Claims, project: Path, words: list[str]) -> None:
    git(project, "branch", "other")
    (project / "new.txt").write_text("x")
    git(project, *words)
    assert held(project) == [(BOB, 1)]
    claims.claim(ANN, ["docs"], "T-2")
    assert held(project) == [(ANN, 2), (BOB, 1)]


REMOVALS = [["clean", "-fdq"], ["clean", "-fdxq"], ["stash", "-q", "-u"], ["stash", "-q", "-a"]]


@pytest.mark.parametrize("words", REMOVALS, ids=" ".join)
def test_facts_symbols_and_capsules_survive_and_the_next_change_puts_their_files_back(
    heimdall: Run, project: Path, words: list[str]
) -> None:
    heimdall("blackboard", "set", "port", "5173")
    heimdall("resolve", "set", "F1", "src/a.py")
    heimdall("capsule", "write", "w1", "--what", "one")
    heimdall("capsule", "write", "w2", "--what", "two", "--depends", "w1")
    git(project, *words)
    assert not (project / ".planning/blackboard.json").exists()
    assert heimdall("blackboard", "get", "port").stdout == "5173\n"
    assert heimdall("resolve", "--reverse", "src/a.py").stdout == "F1\n"
    assert "WHAT: one" in heimdall("capsule", "hydrate", "w2").stdout
    assert heimdall("capsule", "list").stdout == "w1\nw2\n"
    heimdall("blackboard", "set", "node", "20")
    heimdall("capsule", "write", "w3", "--what", "three")
    facts = json.loads((project / ".planning/blackboard.json").read_text())["facts"]
    assert facts == {"port": "5173", "node": "20"}
    assert {path.stem for path in (project / ".planning/protocol/capsules").iterdir()} == {"w1", "w2", "w3"}


def test_a_stash_of_facts_that_were_only_read_meanwhile_can_be_popped(heimdall: Run, project: Path) -> None:
    heimdall("blackboard", "set", "port", "5173")
    git(project, "stash", "-q", "-u")
    assert heimdall("blackboard", "get", "port").stdout == "5173\n"
    git(project, "stash", "pop", "-q")
    assert heimdall("blackboard", "get", "port").stdout == "5173\n"


def test_of_a_record_and_its_copy_the_newer_counts(heimdall: Run, project: Path) -> None:
    heimdall("blackboard", "set", "port", "1")
    path = project / ".planning/blackboard.json"
    path.write_text(path.read_text().replace('"1"', '"2"'))  # by hand, or by git
    assert heimdall("blackboard", "get", "port").stdout == "2\n"
    heimdall("blackboard", "set", "port", "3")
    path.write_text(path.read_text().replace('"3"', '"1"'))
    os.utime(path, (1_000_000_000, 1_000_000_000))  # as from a backup
    assert heimdall("blackboard", "get", "port").stdout == "3\n"
    heimdall("blackboard", "set", "node", "20")
    assert json.loads(path.read_text())["facts"] == {"port": "3", "node": "20"}


def test_a_capsule_that_is_removed_on_purpose_stays_away(heimdall: Run, project: Path) -> None:
    for name in ("w1", "w2"):
        heimdall("capsule", "write", name, "--what", "one")
    assert heimdall("capsule", "remove", "w1").returncode == 0
    heimdall("capsule", "write", "w3", "--what", "three")
    assert heimdall("capsule", "list").stdout == "w2\nw3\n"
    assert heimdall("capsule", "remove", "w1").returncode == 1


def test_a_capsule_from_git_is_kept_too(heimdall: Run, project: Path) -> None:
    heimdall("capsule", "write", "w1", "--what", "one")
    capsules = project / ".planning/protocol/capsules"
    (capsules / "pulled.md").write_text("---\nid: pulled\ndepends: \n---\nWHAT: elsewhere\n")
    heimdall("capsule", "write", "w2", "--what", "two")
    git(project, "clean", "-fdxq")
    assert "WHAT: elsewhere" in heimdall("capsule", "show", "pulled").stdout


def test_a_list_writes_nothing_to_the_worktree(heimdall: Run, project: Path) -> None:
    for name in ("blackboard", "resolve", "capsule", "claim", "haid"):
        assert heimdall(name, "list").returncode == 0
    assert not (project / ".planning").exists()
    heimdall("blackboard", "set", "port", "1")
    git(project, "clean", "-fdxq")
    for name in ("blackboard", "resolve", "capsule", "claim", "haid"):
        heimdall(name, "list")
    assert not (project / ".planning").exists()


def test_all_worktrees_see_the_same_and_outlive_one_another(claims: Claims, project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "two"), "-b", "two")
    other = Claims(Planning(project=str(tmp_path / "two")), str(tmp_path / "two"))
    other.claim(ANN, ["docs"], "T-2")
    assert held(project) == held(tmp_path / "two") == [(ANN, 2), (BOB, 1)]
    git(project, "worktree", "remove", "--force", str(tmp_path / "two"))
    assert held(project) == [(ANN, 2), (BOB, 1)]


def test_git_is_shown_nothing_of_it_and_add_takes_nothing_of_it(claims: Claims, project: Path) -> None:
    assert git(project, "status", "--porcelain") == ""
    git(project, "add", "-A")
    assert git(project, "diff", "--cached", "--name-only") == ""


def test_the_names_in_planning_still_lead_to_it(claims: Claims, project: Path) -> None:
    (file,) = (project / ".planning/ledger/claims").glob("*.json")
    assert json.loads(file.read_text())["haid"] == BOB
    assert "\tclaim\tclaim\t" in (project / ".planning/protocol.log").read_text()
    assert not os.readlink(project / ".planning/protocol.log").startswith("/")
    git(project, "clean", "-fdxq")
    assert not (project / ".planning").exists()
    claims.release(BOB)
    assert (project / ".planning/protocol.log").read_text().count("\n") == 2


READS = [
    *(["claim", "list"], ["claim", "check", "docs"], ["claim", "who"], ["claim", "show"], ["resolve", "F1"]),
    *(["resolve", "list"], ["blackboard", "get", "k"], ["capsule", "hydrate", "w1"], ["haid"], ["ledger", "report"]),
    *(["brief", "build", "--task", "1", "--spec", "s"], ["validate"]),
]
MESSAGE = '{"type":"question","from":"a","msg_id":"m","question":"?"}'


def test_where_nothing_can_be_written_everything_that_only_reads_works(heimdall: Run, project: Path) -> None:
    heimdall("resolve", "set", "F1", "x")
    heimdall("blackboard", "set", "k", "v")
    heimdall("capsule", "write", "w1", "--what", "one")
    heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=BOB)
    _forbid_writing(project / ".git/heimdall")
    for words in READS:
        done = heimdall(*words, stdin=MESSAGE)
        assert (done.returncode, done.stderr) == (0, ""), words
    calls = [
        {"method": "initialize", "params": {"clientInfo": {"name": "cursor"}}},
        *({"method": "tools/call", "params": {"name": name}} for name in ("read_claims", "read_capsules")),
        {"method": "tools/call", "params": {"name": "make_claim", "arguments": {"surfaces": ["x"], "task": "T"}}},
    ]
    lines = "\n".join(json.dumps({"jsonrpc": "2.0", "id": number, **call}) for number, call in enumerate(calls))
    answers = [json.loads(line)["result"] for line in heimdall("ledger-mcp", stdin=lines).stdout.splitlines()]
    assert answers[1]["structuredContent"]["count"] == 1
    assert answers[2]["structuredContent"]["capsules"][0]["id"] == "w1"
    assert answers[3]["isError"] and "cannot" in answers[3]["content"][0]["text"]


def _forbid_writing(live: Path) -> None:
    """Permissions do not stop root, but a file in place of a directory, and the reverse, stops everybody."""
    shutil.rmtree(live / ".locks")
    (live / ".locks").write_text("")
    (live / "protocol.log").unlink()
    (live / "protocol.log").mkdir()
