"""Claims of two clones that share them through a bare remote: real git, real pushes."""

import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import git, here
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.clones import REF, Clones
from treadle.coordination.planning import Planning
from treadle.coordination.surfaces import Surface
from treadle.errors import Denied, NotFound

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


@pytest.fixture
def remote(project: Path, tmp_path: Path) -> Path:
    place = tmp_path / "shop.git"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(place))
    git(project, "remote", "add", "origin", str(place))
    return place


@pytest.fixture
def second(remote: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(remote), str(tmp_path / "second"))
    return tmp_path / "second"


def sharing(top: Path) -> Claims:
    found = Claims(Planning(project=str(top)), str(top))
    Clones(found.planning).turn("origin")
    return found


def test_a_claim_of_one_clone_is_refused_in_the_other_until_it_is_released(project: Path, second: Path) -> None:
    one, other = sharing(project), sharing(second)
    one.claim(BOB, ["src/**"], "T-1")
    with pytest.raises(Collision, match="T-1"):
        other.claim(ANN, ["src/a/b.ts"], "T-2")
    other.claim(ANN, ["docs"], "T-2")
    assert {claim.haid for claim in other.active()} == {ANN, BOB} and one.share()
    assert "in another clone" in "".join(one.listed()) and "0 s ago" in one.store.clones.age()
    for force in (False, True):
        with pytest.raises(Denied, match="another clone"):
            other.release(ANN, BOB, force=force, reason="now")
    assert other.reap()[0] == []
    one.release(BOB)
    assert other.claim(ANN, ["src/a/b.ts"], "T-2").texts == ["docs", "src/a/b.ts"]
    assert not git(second, "for-each-ref", "refs/heimdall").strip(), "the ref is the remote's alone"


def test_the_set_up_of_an_agent_shares_claims_if_a_person_names_the_remote(project: Path, second: Path) -> None:
    assert "not shared with other clones" in here("setup", "claude", cwd=project).stdout
    assert "no remote" in here("setup", "claude", "--share", "upstream", cwd=project).stderr
    for top in (project, second):
        assert "last read from origin" in here("setup", "claude", "--share", "origin", cwd=top).stdout
    assert "not shared" not in here("setup", "codex", cwd=second).stdout
    Claims(Planning(project=str(project)), str(project)).claim(BOB, ["src/**"], "T-1")
    with pytest.raises(Collision, match="T-1"):
        Claims(Planning(project=str(second)), str(second)).claim(ANN, ["src/a/b.ts"], "T-2")


def test_of_two_clones_that_claim_at_the_same_moment_one_is_refused(
    project: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sharing(project), sharing(second)
    exchange, late = Clones.exchange, [True]

    def between(self: Clones, own: dict[str, dict[str, object]]) -> bool:
        if own and late:  # it has read the remote; before it tells of its claim, the other has told of its own
            late.clear()
            other.claim(ANN, ["src/a"], "T-2")
        return exchange(self, own)

    monkeypatch.setattr(Clones, "exchange", between)
    with pytest.raises(Collision, match="T-2"):
        one.claim(BOB, ["src/**"], "T-1")
    assert one.of(BOB) is None and other.of(ANN) is not None


def test_an_edit_of_what_another_clone_holds_is_refused(project: Path, second: Path) -> None:
    one, other = sharing(project), sharing(second)
    one.claim(BOB, ["src/**"], "T-1")
    assert other.share()
    call = '{"tool_name": "Write", "tool_input": {"file_path": "src/a/b.ts"}, "session_id": "s"}'
    assert BOB in here("hook", "gemini", stdin=call, cwd=second).stdout


def test_where_the_remote_is_away_what_was_read_last_counts_and_check_says_how_old_it_is(
    project: Path, second: Path, remote: Path
) -> None:
    one, other = sharing(project), sharing(second)
    one.claim(BOB, ["src/**"], "T-1")
    assert other.share()
    remote.rename(remote.with_name("gone"))
    said = here("claim", "check", "src/a/b.ts", "docs", cwd=second)
    assert said.returncode == 3 and "last read from origin" in said.stderr and "were not told" in said.stderr
    assert other.claim(ANN, ["docs"], "T-2").texts == ["docs"] and "origin" in other.unreported
    with pytest.raises(Collision):
        other.claim(ANN, ["src/a"], "T-2")


def test_sharing_is_a_person_s_choice_of_a_remote_that_is_there(project: Path, second: Path, remote: Path) -> None:
    assert here("claim", "check", "src", cwd=second).stderr == ""
    with pytest.raises(NotFound):
        Clones(Planning(project=str(second))).turn("upstream")
    assert "origin: 0 s ago" in here("claim", "share", "origin", cwd=second).stdout
    assert "installed" in here("claim", "claim", "src", "--task", "T", cwd=second).stdout
    assert REF in git(remote, "for-each-ref")
    assert "not shared" in here("claim", "share", "off", cwd=second).stdout
    here("claim", "share", "origin", cwd=project)
    assert "no active claims" in here("claim", "list", cwd=project).stdout, "what it told was withdrawn"


def test_one_identity_in_two_clones_is_two_holders(project: Path, second: Path) -> None:
    one, other = sharing(project), sharing(second)
    one.claim(BOB, ["src/**"], "T-1")
    other.claim(BOB, ["docs"], "T-2")
    with pytest.raises(Collision, match="T-1"):
        other.claim(BOB, ["src/a"], "T-2")
    assert other.overlaps(ANN, [Surface("src/a"), Surface("docs")])[1:]


@pytest.mark.parametrize("told", ["{", "[]", '{"x.json": {}}', '{"x.json": 7}'])
def test_what_a_clone_told_that_cannot_be_read_is_reported_and_removes_nothing(
    project: Path, second: Path, remote: Path, told: str
) -> None:
    one, other = sharing(project), sharing(second)
    one.claim(BOB, ["src/**"], "T-1")
    assert other.share()
    (name,) = git(remote, "ls-tree", "--name-only", REF).split()
    blob = subprocess.run(
        ["git", "-C", str(remote), "hash-object", "-w", "--stdin"], input=told, capture_output=True, text=True
    ).stdout.strip()
    for rows in (f"100644 blob {blob}\t{name}\n", ""):
        tree = subprocess.run(
            ["git", "-C", str(remote), "mktree"], input=rows, capture_output=True, text=True
        ).stdout.strip()
        git(remote, "update-ref", REF, git(remote, "commit-tree", "-m", "x", tree).strip())
        assert other.share() and bool(other.unseen()) == bool(rows)
        assert [claim.haid for claim in other.active()] == [BOB]
    one.publish()
    assert name in git(remote, "ls-tree", "--name-only", REF), "its clone tells of it again"
