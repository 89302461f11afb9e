"""What an agent did in its private git directory is taken over into the person's repository, or kept and named."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.checkouts import Working, checkout, git, refs
from tests.agent.sealed import log
from treadle.io.sandbox import methods

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return checkout(tmp_path / "w")


@pytest.fixture
def agent(top: Path) -> Iterator[Working]:
    made = Working(top)
    yield made
    made.confining.close()


async def test_other_branches_and_tags_are_taken_over_and_nothing_is_deleted(top: Path, agent: Working) -> None:
    git(top, "branch", "old")
    git(top, "tag", "v0")
    await agent.ok("git branch feature; git tag -am x v1; git branch -D old; git tag -d v0; git notes add -m n")
    assert git(top, "branch", "--format=%(refname:short)").split() == ["feature", "main", "old"]
    assert git(top, "tag").split() == ["v0", "v1"] and git(top, "cat-file", "-t", "v1") == "tag"
    assert git(top, "notes", "show") == "n"
    assert agent.said == [
        f"the agent deleted {name}; in your repository it is still there" for name in ("old", "tags/v0")
    ]
    await agent.ok("git branch another")
    assert len(agent.said) == 2 and "another" in git(top, "branch")


async def test_switching_and_resetting_move_head_branch_and_index_together(top: Path, agent: Working) -> None:
    git(top, "commit", "-q", "--allow-empty", "-m", "two")
    await agent.ok(
        "git switch -qc feature; echo f > file.txt; git commit -qam three; git rm -q file.txt; echo n > n; git add n"
    )
    assert (
        git(top, "branch", "--show-current") == "feature"
        and log(top) == "three\ntwo\none"
        and log(top, "main") == "two\none"
    )
    assert git(top, "status", "--porcelain").split() == ["D", "file.txt", "A", "n"]
    await agent.ok("git switch -qf main && git reset -q --hard HEAD~1")
    assert log(top) == "one" and git(top, "status", "--porcelain") == "" and agent.said == []
    await agent.ok("git checkout -q --detach && git commit -q --allow-empty -m loose")
    assert git(top, "branch", "--show-current") == "" and log(top) == "loose\none" and agent.said == []


async def test_a_stash_is_kept_under_refs_of_ours_and_said(top: Path, agent: Working) -> None:
    await agent.ok("echo stashed > file.txt; git stash -q")
    [said] = agent.said
    name = said.split("kept as ")[1].split()[0]
    assert git(top, "stash", "list") == "" and git(top, "status", "--porcelain") == ""
    git(top, "stash", "apply", name)
    assert (top / "file.txt").read_text() == "stashed\n"


async def test_an_unfinished_merge_is_not_taken_over_and_can_go_on(top: Path, agent: Working) -> None:
    await agent.ok(
        "git switch -qc a; echo a > file.txt; git commit -qam a; "
        "git switch -q main; echo b > file.txt; git commit -qam b"
    )
    before = git(top, "rev-parse", "HEAD")
    await agent.run("git merge a")
    [said] = agent.said
    assert said.startswith("unfinished in the agent's repository: MERGE_HEAD; your repository is unchanged.")
    assert not (top / ".git" / "MERGE_HEAD").exists() and git(top, "rev-parse", "HEAD") == before
    await agent.ok("echo c > file.txt; git add .; git commit -qm merged")
    assert log(top).split("\n")[0] == "merged" and git(top, "status", "--porcelain") == "" and len(agent.said) == 1


async def test_an_unfinished_rebase_with_commands_is_not_taken_over(top: Path, agent: Working) -> None:
    await agent.ok("git commit -q --allow-empty -m two")
    await agent.run("git rebase -q --exec false HEAD~1")
    assert "rebase-merge" in agent.said[0] and not (top / ".git" / "rebase-merge").exists()
    assert git(top, "status", "--porcelain") == "" and log(top) == "two\none"


@pytest.mark.parametrize("act", ["commit", "switch", "stage"])
async def test_when_the_user_acts_meanwhile_nothing_of_theirs_is_overwritten(
    top: Path, agent: Working, act: str
) -> None:
    await agent.ok("true")
    (top / "mine.txt").write_text("of the user\n")
    git(top, "add", "mine.txt")
    if act != "stage":
        git(top, *(["commit", "-qm", "mine"] if act == "commit" else ["switch", "-qc", "users"]))
    before = git(top, "rev-parse", "HEAD"), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")
    place = agent.confining.sealing.begin()[0]
    place._seen_user = place._user_state()  # it happens after we looked, while the command runs
    await agent.ok("echo two > file.txt; git commit -qam agents")
    assert (git(top, "rev-parse", "HEAD"), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")) == before
    assert log(top, "treadle/s1") == "agents\none" and "treadle/s1" in agent.said[0]
    assert await agent.ok("git log --format=%s") == log(top)  # its repository has been renewed
    await agent.ok("git commit -qam again")
    assert log(top).startswith("again") and len(agent.said) == 1


async def test_what_is_not_taken_over_is_kept(top: Path) -> None:
    agent = Working(top)
    await agent.ok("git commit -q --allow-empty -m two")
    await agent.run("git rebase -q --exec false HEAD~1")
    home = Path(agent.confining.sealing._home)
    agent.confining.close()
    assert (home / "0" / "git" / "rebase-merge").is_dir()


async def test_what_is_fetched_is_taken_over_as_refs_of_the_remote(tmp_path: Path, top: Path) -> None:
    git(tmp_path, "clone", "-q", str(top), "upstream")
    git(tmp_path / "upstream", "commit", "-q", "--allow-empty", "-m", "theirs")
    git(top, "remote", "add", "origin", str(tmp_path / "upstream"))
    agent = Working(top, tmp_path / "upstream")
    await agent.ok("git fetch -q origin")
    assert log(top, "refs/remotes/origin/main") == "theirs\none" and log(top) == "one" and agent.said == []
    await agent.ok("git merge -q --ff-only origin/main")
    assert log(top) == "theirs\none" and git(top, "status", "--porcelain") == ""
    agent.confining.close()


async def test_what_was_made_with_forged_objects_is_not_taken_over(top: Path, agent: Working) -> None:
    """Git does not hash an object that it reads, so a file of another content under the right name deceives it."""
    await agent.ok("echo good > new.txt; git add new.txt; git commit -qm good")
    forge = (
        "echo honest > h; id=$(git hash-object -w h); evil=$(echo evil | git hash-object -w --stdin); cd .git/objects;"
        "cp -f ${evil%${evil#??}}/${evil#??} ${id%${id#??}}/${id#??}; cd ../..; git add h; git commit -qm forged"
    )
    await agent.run(forge)
    assert log(top) == "good\none" and "not taken over" in agent.said[0]


async def test_refs_that_would_mislead_git_stay_with_the_agent(top: Path, agent: Working) -> None:
    git(top, "branch", "feature")
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    before = refs(top)
    bad = ["heads/HEAD", "heads/-x", "tags/feature", "tags/main", "tags/origin/main", "remotes/origin/HEAD"]
    bad += ["heads/refs/heads/main", f"heads/{'a' * 40}", "tags/HEAD"]
    await agent.ok("".join(f"git update-ref refs/{name} HEAD\n" for name in bad))
    assert refs(top) == before and len(agent.said) == len(bad)
    await agent.ok(
        "git update-ref refs/heads/-y $(git commit-tree -m y HEAD^{tree}); git symbolic-ref HEAD refs/heads/-y"
    )
    assert git(top, "symbolic-ref", "HEAD") == "refs/heads/main" and "-y misleads git" in agent.said[-1]


async def test_commits_with_a_new_submodule_are_not_taken_over_whatever_the_index_says(
    top: Path, agent: Working
) -> None:
    tree = "t=$(printf '160000 commit %s\\tsub\\n' $(git rev-parse HEAD) | git mktree)"
    await agent.ok(f"{tree}; git branch side $(git commit-tree -p HEAD -m side $t)")
    assert git(top, "branch", "--format=%(refname:short)") == "main" and "adds the submodule sub" in agent.said[0]
    await agent.ok(f"{tree}; git reset -q --soft $(git commit-tree -p HEAD -m two $t)")
    assert log(top) == "one" and "adds the submodule sub" in agent.said[1]


@pytest.mark.parametrize("call", ["fsync", "rename"])
async def test_when_the_index_cannot_be_written_the_branches_have_not_moved_either(
    top: Path, agent: Working, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk. Only the call of the operating system is replaced."""
    real = getattr(os, call)

    def full(*args: Any, **more: Any) -> Any:
        place = args[-1] if call == "rename" else os.readlink(f"/proc/self/fd/{args[0]}")
        if str(place).startswith(str(top / ".git" / "index")):
            raise OSError(28, "No space left on device")
        return real(*args, **more)

    monkeypatch.setattr(os, call, full)
    before = refs(top), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")
    await agent.ok("git switch -qc new; echo two > file.txt; git commit -qam two")
    assert (refs(top), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")) == before
    assert "No space left" in agent.said[0] and not list((top / ".git").glob("index.*"))
    monkeypatch.undo()
    await agent.ok("git commit -q --allow-empty -m three")
    assert log(top) == "three\ntwo\none" and git(top, "status", "--porcelain") == ""
