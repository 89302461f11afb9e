"""What an agent did in its private git directory is taken over into the person's repository, or kept and named."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agent.checkouts import Working, checkout, git, refs
from tests.agent.sealed import log
from tests.tiers import spread
from treadle.errors import WorkspaceError
from treadle.workspace import index_file, private_git
from treadle.workspace.checkouts import around
from treadle.workspace.in_place import BASE, ROOM, Takeover, recalled

BUBBLE = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"]


def bubbles() -> bool:
    """By hand: a sandbox of ours that does not work must fail these tests, and not skip them."""
    return shutil.which("bwrap") is not None and subprocess.run(BUBBLE, capture_output=True).returncode == 0


confined = pytest.mark.skipif(not bubbles(), reason="needs bubblewrap")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return checkout(tmp_path / "w")


@pytest.fixture
def agent(top: Path) -> Iterator[Working]:
    made = Working(top)
    yield made
    made.confining.close()


@confined
async def test_other_branches_and_tags_are_kept_apart_and_nothing_is_deleted(top: Path, agent: Working) -> None:
    git(top, "branch", "old")
    git(top, "tag", "v0")
    before = refs(top)
    await agent.ok("git branch feature; git tag -am x v1; git branch -D old; git tag -d v0; git notes add -m n")
    apart = "refs/treadle/from/s1"
    assert [line for line in refs(top) if apart not in line] == before
    assert git(top, "cat-file", "-t", f"{apart}/tags/v1") == "tag" and log(top, f"{apart}/heads/feature") == "one"
    assert agent.said == [
        f"the agent made or moved feature, notes/commits, tags/v1: kept below {apart}/, your own refs are as they were"
        f" (`git branch feature {apart}/heads/feature` uses it)",
        *(f"the agent deleted {name}; in your repository it is still there" for name in ("old", "tags/v0")),
    ]
    await agent.ok("git branch -f feature $(git commit-tree -m moved HEAD^{tree})")
    assert len(agent.said) == 4 and log(top, f"{apart}/heads/feature") == "moved"


@confined
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
    await agent.ok("git switch -qf main && git commit -q --allow-empty -m more && git reset -q --hard HEAD~1")
    assert log(top) == "two\none" and git(top, "status", "--porcelain") == "" and agent.said == []
    await agent.ok("git checkout -q --detach HEAD~1 && git commit -q --allow-empty -m loose")
    assert git(top, "branch", "--show-current") == "" and log(top) == "loose\none" and agent.said == []


@confined
async def test_a_stash_is_kept_under_refs_of_ours_and_said(top: Path, agent: Working) -> None:
    await agent.ok("echo stashed > file.txt; git stash -q")
    [said] = agent.said
    name = said.split("kept as ")[1].split()[0]
    assert git(top, "stash", "list") == "" and git(top, "status", "--porcelain") == ""
    git(top, "stash", "apply", name)
    assert (top / "file.txt").read_text() == "stashed\n"


@confined
async def test_an_unfinished_merge_is_not_taken_over_and_can_go_on(top: Path, agent: Working) -> None:
    await agent.ok(
        "git switch -qc a; echo a > file.txt; git commit -qam a; "
        "git switch -q main; echo b > file.txt; git commit -qam b"
    )
    before = git(top, "rev-parse", "HEAD")
    agent.said.clear()
    await agent.run("git merge a")
    [said] = agent.said
    assert said.startswith("unfinished in the agent's repository: MERGE_HEAD; your repository is unchanged.")
    assert not (top / ".git" / "MERGE_HEAD").exists() and git(top, "rev-parse", "HEAD") == before
    await agent.ok("echo c > file.txt; git add .; git commit -qm merged")
    assert log(top).split("\n")[0] == "merged" and git(top, "status", "--porcelain") == "" and len(agent.said) == 1


@confined
@pytest.mark.parametrize("act", spread(["commit", "switch", "stage"], quick=1, slow=2))
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


@confined
async def test_what_is_not_taken_over_is_kept(top: Path) -> None:
    agent = Working(top)
    await agent.ok("git commit -q --allow-empty -m two")
    await agent.run("git rebase -q --exec false HEAD~1")
    home = Path(agent.confining.sealing._home)
    agent.confining.close()
    assert (home / "0" / "git" / "rebase-merge").is_dir()


@confined
async def test_what_is_fetched_is_kept_apart_until_it_is_merged(tmp_path: Path, top: Path) -> None:
    git(tmp_path, "clone", "-q", str(top), "upstream")
    git(tmp_path / "upstream", "commit", "-q", "--allow-empty", "-m", "theirs")
    git(top, "remote", "add", "origin", str(tmp_path / "upstream"))
    agent = Working(top, tmp_path / "upstream")
    await agent.ok("git fetch -q origin")
    assert log(top, "refs/treadle/from/s1/remotes/origin/main") == "theirs\none" and log(top) == "one"
    assert git(top, "for-each-ref", "refs/remotes") == "" and "`git log refs/treadle/from/s1/remotes/" in agent.said[0]
    await agent.ok("git merge -q --ff-only origin/main")
    assert log(top) == "theirs\none" and git(top, "status", "--porcelain") == ""
    agent.confining.close()


@confined
async def test_what_was_made_with_forged_objects_is_not_taken_over(top: Path, agent: Working) -> None:
    """Git does not hash an object that it reads, so a file of another content under the right name deceives it."""
    await agent.ok("echo good > new.txt; git add new.txt; git commit -qm good")
    forge = (
        "echo honest > h; id=$(git hash-object -w h); evil=$(echo evil | git hash-object -w --stdin); cd .git/objects;"
        "cp -f ${evil%${evil#??}}/${evil#??} ${id%${id#??}}/${id#??}; cd ../..; git add h; git commit -qm forged"
    )
    await agent.run(forge)
    assert log(top) == "good\none" and "not taken over" in agent.said[0]


@confined
async def test_refs_that_would_mislead_git_are_kept_apart_also_when_a_person_asks(top: Path, agent: Working) -> None:
    git(top, "branch", "feature")
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    before = refs(top)
    bad = ["heads/HEAD", "heads/-x", "tags/feature", "tags/main", "tags/origin/main", "remotes/origin/HEAD"]
    bad += ["heads/refs/heads/main", f"heads/{'a' * 40}", "tags/HEAD"]
    await agent.ok("".join(f"git update-ref refs/{name} HEAD\n" for name in bad))
    assert [line for line in refs(top) if "refs/treadle/from/s1/" not in line] == before and len(agent.said) == 1
    (place,) = agent.confining.sealing.begin()
    inside = agent.confining.sealing._inside
    assert "misleads git" in (await place.adopt(partial(inside, place)))[0]
    assert [line for line in refs(top) if "refs/treadle/from/s1/" not in line] == before
    await agent.ok(
        "git update-ref refs/heads/-y $(git commit-tree -m y HEAD^{tree}); git symbolic-ref HEAD refs/heads/-y"
    )
    assert git(top, "symbolic-ref", "HEAD") == "refs/heads/main" and "-y misleads git" in agent.said[-1]


@confined
async def test_when_the_index_cannot_be_written_the_branches_have_not_moved_either(
    top: Path, agent: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk. Only the call of the operating system is replaced."""
    real = os.rename

    def full(*args: Any, **more: Any) -> Any:
        if str(args[-1]).startswith(str(top / ".git" / "index")):
            raise OSError(28, "No space left on device")
        return real(*args, **more)

    monkeypatch.setattr(os, "rename", full)
    before = refs(top), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")
    await agent.ok("git switch -qc new; echo two > file.txt; git commit -qam two")
    assert (refs(top), git(top, "ls-files", "-s"), git(top, "symbolic-ref", "HEAD")) == before
    assert "No space left" in agent.said[0] and not list((top / ".git").glob("index.*"))
    monkeypatch.undo()
    await agent.ok("git commit -q --allow-empty -m three")
    assert log(top) == "three\ntwo\none" and git(top, "status", "--porcelain") == ""


class Direct:
    """An agent's private repository, in which its git runs without a sandbox."""

    def __init__(self, top: Path, home: Path) -> None:
        self.top, self.home, self.private = top, home, home / "git"
        home.mkdir()
        self.taking = Takeover(around(str(top)), str(home), "s1")
        made = private_git.make(str(self.private), self.taking.user)
        self.taking.head, self.taking.refs = made.head, dict(made.refs)
        self.taking._keep_base()

    def git(self, *words: str, check: bool = True) -> str:
        return git(self.top, f"--git-dir={self.private}", f"--work-tree={self.top}", *words, check=check)

    async def inside(self, script: str, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        room = self.home / "room"
        shutil.rmtree(room, ignore_errors=True)
        for name in ("in", "out"):
            (room / name).mkdir(parents=True)
        for name, data in given.items():
            (room / "in" / name).write_bytes(data)
        env = {**os.environ, "GIT_DIR": str(self.private), "GIT_WORK_TREE": str(self.top)}
        subprocess.run(["sh", "-c", script.replace(ROOM, str(room))], cwd=self.top, env=env, check=True)
        return {path.name: path.read_bytes() for path in (room / "out").iterdir()}

    async def take(self) -> list[str]:
        return await self.taking.take(await self.taking.left(self.inside), self.inside)

    async def adopt(self) -> list[str]:
        return await self.taking.adopt(self.inside)

    def commit(self, text: str, branch: str = "") -> str:
        if branch:
            self.git("switch", "-qc", branch)
        (self.top / "file.txt").write_text(text)
        self.git("commit", "-qam", text)
        return self.git("rev-parse", "HEAD")

    def conflicting(self) -> None:
        """A merge that does not end."""
        self.commit("a", "a")
        self.git("switch", "-q", "main")
        self.commit("b")
        self.git("merge", "a", check=False)

    def link(self, name: str) -> str:
        """A commit that adds a submodule."""
        row = f"160000 commit {'1' * 40}\t{name}\n"
        words = ["git", f"--git-dir={self.private}", "mktree", "--missing"]
        tree = subprocess.run(words, input=row, text=True, capture_output=True, check=True).stdout.strip()
        return self.git("commit-tree", "-m", "link", "-p", "HEAD", tree)


@pytest.fixture
def direct(top: Path, tmp_path: Path) -> Direct:
    return Direct(top, tmp_path / "home")


async def test_an_unfinished_merge_is_adopted_with_its_conflicts_and_words(top: Path, direct: Direct) -> None:
    direct.conflicting()
    assert "treadle git adopt s1" in (await direct.take())[0] and await direct.take() == [], "said once"
    other = direct.git("rev-parse", "a")
    assert await direct.adopt() == [
        "the merge is now in your repository: resolve 1 file and git add, then git commit, or git merge --abort"
    ]
    assert (top / ".git/MERGE_HEAD").read_text() == f"{other}\n" and log(top) == "b\none"
    assert (top / ".git/MERGE_MSG").read_text().startswith("Merge branch 'a'")
    assert git(top, "status", "--porcelain") == "UU file.txt" and not direct.taking.stale
    git(top, "merge", "--abort")
    assert git(top, "status", "--porcelain") == ""


@pytest.mark.parametrize("what", ["cherry-pick", "revert"])
async def test_a_pick_or_a_revert_that_only_lacks_its_end_is_adopted(top: Path, direct: Direct, what: str) -> None:
    direct.commit("two")
    direct.git("switch", "-qc", "side", "HEAD~1")
    direct.git(what, "--no-commit", "main" if what == "cherry-pick" else "HEAD", check=False)
    name = {"cherry-pick": "CHERRY_PICK_HEAD", "revert": "REVERT_HEAD"}[what]
    (direct.private / name).write_text(direct.git("rev-parse", "main") + "\n")
    notes = await direct.adopt()
    assert notes == [f"the {what} is now in your repository: end it with git commit, or git {what} --abort"]
    assert (top / ".git" / name).read_text().strip() == git(top, "rev-parse", "main")


async def test_of_a_rebase_only_the_state_is_adopted(top: Path, direct: Direct) -> None:
    direct.commit("two")
    direct.git("rebase", "-q", "--exec", "false", "HEAD~1", check=False)
    assert await direct.adopt() == ["rebase-merge was not taken over, because its steps can name programs"]
    assert not (top / ".git/rebase-merge").exists() and log(top) == "two\none"


async def test_what_the_user_has_unfinished_is_in_the_way_and_the_commits_are_kept(top: Path, direct: Direct) -> None:
    direct.conflicting()
    (top / ".git/REVERT_HEAD").write_text(git(top, "rev-parse", "HEAD"))
    (said,) = await direct.adopt()
    assert said == (
        "a merge, rebase or the like is unfinished in your repository (REVERT_HEAD): the agent's commits are kept as"
        " the branch treadle/s1, and nothing else was changed"
    )
    assert direct.taking.stale and log(top) == "one" and log(top, "treadle/s1") == "b\none"


async def test_a_merge_with_what_is_no_commit_is_not_shown(top: Path, direct: Direct) -> None:
    direct.conflicting()
    (direct.private / "MERGE_HEAD").write_text(direct.git("rev-parse", "main:file.txt"))
    (said,) = await direct.adopt()
    assert said.startswith("the agent's MERGE_HEAD is not a commit: ") and not (top / ".git/MERGE_HEAD").exists()


async def test_what_both_had_is_recalled_after_the_session_has_ended(top: Path, direct: Direct) -> None:
    new = direct.commit("two", "new")
    assert await direct.take() == []
    again = Takeover(direct.taking.user, str(direct.home), "s1")
    again.recall()
    assert again.head == "refs/heads/new" and again.refs["refs/heads/new"] == new and "refs/heads/main" in again.refs
    assert again._entries == direct.taking._entries == index_file.entries(again.user) != {}
    (direct.home / BASE).write_text("0 refs/heads/main")
    with pytest.raises(
        WorkspaceError, match="starting point of session s1 cannot be read: missing, or of another release"
    ) as raised:
        recalled(str(direct.home), "s1")
    assert raised.value.hint == f"its repository is {direct.private}"
    (direct.home / BASE).unlink()
    with pytest.raises(WorkspaceError, match="cannot be read: missing"):
        again.recall()


async def test_a_link_among_the_refs_is_not_followed(direct: Direct) -> None:
    (direct.private / "refs/heads/file").symlink_to(direct.top / "file.txt")
    direct.taking._check_refs()
    (direct.private / "refs/heads/all").symlink_to("/")
    with pytest.raises(WorkspaceError, match="refs/heads/all of the agent's repository is a link to a directory"):
        await direct.take()


async def test_on_request_other_refs_get_their_own_names_unless_the_gate_refuses_one(top: Path, direct: Direct) -> None:
    side = direct.git("commit-tree", "-m", "side", "-p", "HEAD", "HEAD^{tree}")
    direct.git("branch", "side", side)
    assert len(await direct.take()) == 1 and git(top, "branch", "--list", "side") == "" and await direct.take() == []
    assert await direct.adopt() == [] and git(top, "rev-parse", "side") == side
    direct.git("branch", "link", direct.link("sub"))
    (said,) = await direct.adopt()
    assert said.endswith("your own refs are as they were (sub is a submodule, which your git would enter)")
    assert git(top, "branch", "--list", "link") == ""


async def test_a_submodule_that_the_user_has_is_no_new_one(top: Path, tmp_path: Path) -> None:
    git(top, "branch", "side")
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(top, "commit", "-qm", "link")
    direct = Direct(top, tmp_path / "home")
    assert direct.taking.submodules() == [str(top / "sub")]
    direct.git("update-index", "--cacheinfo", f"160000,{'2' * 40},sub")
    assert await direct.take() == [] and git(top, "ls-files", "-s", "sub").split()[1] == "2" * 40
    direct.git("commit", "-qm", "moved")
    assert await direct.take() == [] and log(top).startswith("moved\nlink")
    direct.git("update-index", "--add", "--cacheinfo", f"160000,{'2' * 40},other")
    (said,) = await direct.take()
    assert said == "other is a submodule, which your git would enter: what the agent staged was not taken over"
    assert "other" not in git(top, "ls-files")


async def test_the_first_commit_of_all_may_not_bring_one_either(tmp_path: Path) -> None:
    top = tmp_path / "empty"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    direct = Direct(top, tmp_path / "home")
    direct.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    direct.git("commit", "-qm", "first")
    direct.git("rm", "-q", "--cached", "sub")
    (said,) = await direct.take()
    assert said.startswith("sub is a submodule, which your git would enter: the agent's commits wait for you as ")
    assert git(top, "rev-parse", "--verify", "-q", "main", check=False) == ""


async def test_a_branch_that_is_checked_out_elsewhere_is_not_moved(top: Path, direct: Direct, tmp_path: Path) -> None:
    git(top, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    git(top, "branch", "treadle/s1", git(top, "commit-tree", "-m", "of another", "HEAD^{tree}"))
    direct = Direct(top, tmp_path / "second")
    before = git(top, "rev-parse", "side")
    new = direct.git("commit-tree", "-m", "moved", "-p", "HEAD", "HEAD^{tree}")
    direct.git("update-ref", "refs/heads/side", new)
    (said,) = await direct.adopt()
    assert said.endswith("your own refs are as they were (side is checked out in another worktree)")
    assert git(top, "rev-parse", "side") == before and log(top, "refs/treadle/from/s1/heads/side") == "moved\none"
    assert await direct.take() == [], "said once"
    direct.git("symbolic-ref", "HEAD", "refs/heads/side")
    (said,) = await direct.take()
    assert said.startswith("side is checked out in another worktree: ") and "treadle/s1-2" in said
    assert git(top, "symbolic-ref", "HEAD") == "refs/heads/main"


async def test_while_another_git_holds_the_index_nothing_moves(
    top: Path, direct: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "PATIENCE", 0.0)
    direct.commit("two")
    (top / ".git/index.lock").touch()
    (said,) = await direct.take()
    assert said.startswith("another git command holds the index of your repository: the agent's commits are kept")
    assert direct.taking.stale and log(top) == "one" and (top / ".git/index.lock").exists()


@pytest.mark.parametrize("old", [False, True])
async def test_when_head_cannot_move_its_branches_go_back(top: Path, tmp_path: Path, old: bool) -> None:
    if old:
        git(top, "branch", "feature")
    direct = Direct(top, tmp_path / "home")
    direct.git(*(["switch", "-q", "feature"] if old else ["switch", "-qc", "feature"]))
    direct.commit("two")
    before = refs(top)
    (top / ".git/HEAD.lock").touch()
    (said,) = await direct.take()
    assert "HEAD.lock" in said and "kept as the branch treadle/s1" in said
    assert [line for line in refs(top) if "treadle/s1" not in line] == before
    assert git(top, "symbolic-ref", "HEAD") == "refs/heads/main" and git(top, "status", "--porcelain") == "M file.txt"


async def test_a_stash_and_a_deleted_branch_are_said_once_and_refs_of_its_own_never(top: Path, direct: Direct) -> None:
    at = git(top, "rev-parse", "HEAD")
    for name in ("bisect/bad", "rewritten/x", "worktree/y"):
        direct.git("update-ref", f"refs/{name}", at)
    assert await direct.take() == []
    direct.git("update-ref", "refs/replace/" + "1" * 40, at)
    direct.git("symbolic-ref", "refs/heads/other", "refs/heads/main")
    (said,) = await direct.take()
    assert said.startswith("the agent's refs/replace/1111") and said.endswith("such refs are not taken over")
    assert await direct.take() == [] and refs(top) == [f"{at} commit\trefs/heads/main"]
    (top / "file.txt").write_text("stashed\n")
    direct.git("stash", "-q")
    (said,) = await direct.take()
    assert said.startswith("the agent stashed changes; they are kept as refs/treadle/stash/s1/")
    assert await direct.take() == []
