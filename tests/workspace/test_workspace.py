"""Each kind of workspace: what it contains, what changed, and that nothing unsaved is deleted."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workspace.repositories import branches, git, make, open_in
from treadle.errors import WorkspaceError
from treadle.workspace.workspace import Workspace, prepare


def files(root: str) -> set[str]:
    return {os.path.relpath(os.path.join(top, name), root) for top, _, names in os.walk(root) for name in names}


def test_a_copy_has_everything_but_git_and_ways_out(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source)
    assert files(workspace.root) == {"a.txt", ".gitignore", "src/m.py", "notes.md", "good"}
    assert len([note for note in workspace.notes if "leads out" in note]) == 5, (
        "one that names the source by its whole path too"
    )
    for name in files(workspace.root):
        assert os.path.realpath(os.path.join(workspace.root, name)).startswith(os.path.realpath(workspace.root))


def test_include_and_exclude_are_honoured_and_exclude_wins(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source, include=["src/**", "*.md"], exclude=["**/m.*"])
    assert files(workspace.root) == {"notes.md"}


def test_an_include_that_fits_nothing_is_told_and_empty_directories_are_copied(tmp_path: Path, source: Path) -> None:
    (source / "empty").mkdir()
    workspace = open_in(tmp_path, source, include=["*.rs"])
    assert "nothing was copied: no file fits *.rs" in workspace.notes
    workspace.discard()
    assert Path(open_in(tmp_path, source).root, "empty").is_dir()


def test_a_copy_of_a_directory_that_holds_the_workspace_does_not_copy_itself(tmp_path: Path, source: Path) -> None:
    (source / ".runs").mkdir()
    workspace = prepare("staged", str(source), str(source / ".runs"), name="r1")
    assert not any(name.startswith(".runs/workspace") for name in files(workspace.root))


def test_too_much_to_copy_is_refused_and_leaves_nothing(tmp_path: Path, source: Path) -> None:
    (source / "big").write_bytes(b"x" * 5000)
    with pytest.raises(WorkspaceError, match="4000 bytes"):
        open_in(tmp_path, source, cap=4000)
    assert not (tmp_path / "run" / "workspace").exists()


def test_a_clean_copy_goes_and_a_dirty_one_stays(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source)
    (Path(workspace.root) / "noise.log").write_text("ignored")
    assert workspace.release() is None and not Path(workspace.root).exists()
    (tmp_path / "run").rename(tmp_path / "first")
    workspace = open_in(tmp_path, source)
    (Path(workspace.root) / "new.txt").write_text("n")
    assert workspace.release() == workspace.root and Path(workspace.root, "new.txt").exists()
    assert workspace.release(applied=True) is None and not Path(workspace.root).exists()


def test_a_copy_whose_permissions_were_taken_away_can_be_removed(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source)
    os.chmod(os.path.join(workspace.root, "src"), 0)
    assert workspace.release(applied=True) is None and not Path(workspace.root).exists()


def test_hooks_in_a_tracked_folder_are_not_applied(tmp_path: Path) -> None:
    top = Path(make(tmp_path / "source").top)
    (top / "deep").mkdir()
    git("config", "core.hooksPath", "deep/hooks", cwd=str(top))
    workspace = open_in(tmp_path, top / "deep")
    (Path(workspace.root) / "hooks").mkdir()
    hook = Path(workspace.root) / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    hook.chmod(0o755)
    (Path(workspace.root) / "b.txt").write_text("fine on its own\n")
    (conflict,) = workspace.apply().conflicts
    assert conflict.path == "hooks/post-checkout" and "core.hooksPath" in conflict.reason
    subprocess.run(["git", "checkout", "-q", "-b", "next"], cwd=top, check=True)
    assert not (tmp_path / "canary").exists() and not (top / "deep" / "b.txt").exists()


def test_a_worktree_is_kept_when_it_is_dirty_and_its_result_becomes_a_branch(tmp_path: Path) -> None:
    repository = make(tmp_path / "other")
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    Path(workspace.root, "a.txt").write_text("two\n")
    assert [change.path for change in workspace.difference().changes] == ["a.txt"]
    assert branches(repository) == {"main"}, "until the result counts, the repository is as it was"
    assert workspace.release() == workspace.root
    commit = workspace.publish("the task")
    assert repository.git("rev-parse", "treadle/r1", "treadle/r1^").split() == [commit, repository.commit()]
    assert repository.git("show", "treadle/r1:a.txt") == "two\n"
    git("fsck", "--strict", cwd=repository.top)
    assert workspace.apply().written == ("a.txt",)
    assert workspace.release(applied=True) is None
    assert branches(repository) == {"main", "treadle/r1"} and not Path(workspace.root).exists()


def test_a_worktree_is_an_ordinary_repository_to_the_run_and_the_persons_is_untouched(tmp_path: Path) -> None:
    repository = make(tmp_path / "other")
    before = {path: path.read_bytes() for path in Path(repository.common).rglob("*") if path.is_file()}
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    [kept] = Path(repository.common, "refs", "treadle", "base").glob("*/*")
    before[kept] = f"{repository.commit()}\n".encode()  # what the run begins with survives the person's git gc
    assert git("status", "--porcelain", "--branch", cwd=workspace.root).stdout == b"## treadle/r1\n"
    Path(workspace.root, "b.txt").write_text("b\n")
    git("add", "-A", cwd=workspace.root)
    git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "agent", cwd=workspace.root)
    git("update-ref", "refs/heads/main", "HEAD", cwd=workspace.root)
    assert [change.path for change in workspace.difference().changes] == ["b.txt"]
    assert workspace.release(applied=True) is not None, "it has a commit that is nowhere else"
    assert {path: path.read_bytes() for path in Path(repository.common).rglob("*") if path.is_file()} == before


def test_the_commits_of_a_run_come_out_as_a_bundle_and_the_branch_has_them(tmp_path: Path) -> None:
    repository = make(tmp_path / "other")
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    Path(workspace.root, "b.txt").write_text("b\n")
    git("add", "-A", cwd=workspace.root)
    git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "agent", cwd=workspace.root)
    Path(workspace.root, "c.txt").write_text("not committed\n")
    bundle = git("bundle", "create", "-", "HEAD", f"^{repository.commit()}", cwd=workspace.root).stdout
    agent = workspace.take_commits(bundle)
    workspace.publish("the task", agent)
    assert repository.git("log", "--format=%an %s", "main..treadle/r1") == "treadle the task\nA agent\n"
    assert workspace.release(applied=True) is None


def test_a_worktree_says_what_it_does_not_have(tmp_path: Path) -> None:
    repository = make(tmp_path / "other")
    Path(repository.top, "a.txt").write_text("pending\n")
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    assert "uncommitted" in workspace.notes[0]
    assert workspace.release() is None


def test_a_worktree_needs_a_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(WorkspaceError, match="not in a git repository"):
        open_in(tmp_path, tmp_path / "plain", "worktree")


def test_a_subdirectory_of_a_repository_stays_a_subdirectory_in_its_worktree(tmp_path: Path) -> None:
    repository = make(tmp_path / "other")
    (Path(repository.top) / "sub").mkdir()
    workspace = open_in(tmp_path, Path(repository.top) / "sub", "worktree")
    assert workspace.root.endswith("/workspace/sub")
    Path(workspace.root, "n.txt").write_text("n")
    assert workspace.apply().written == ("n.txt",)
    assert (Path(repository.top) / "sub" / "n.txt").exists()


def test_what_was_changed_above_the_directory_worked_on_is_kept_when_that_was_applied(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    (tmp_path / "repo" / "sub").mkdir()
    workspace = open_in(tmp_path, tmp_path / "repo" / "sub", "worktree")
    Path(workspace.root, "inside.txt").write_text("in\n")
    assert not workspace.holds_work(applied=True)
    Path(workspace.root, "..", "above.txt").write_text("up\n")
    workspace.difference()
    assert workspace.holds_work(applied=True) and workspace.release(applied=True) == workspace.root
    assert Path(workspace.root, "..", "above.txt").exists()
    workspace.discard()
    assert branches(repository) == {"main"} and not (tmp_path / "run").exists()


def test_a_worktree_with_submodules_can_be_released_and_discarded(tmp_path: Path) -> None:
    library, repository = make(tmp_path / "library"), make(tmp_path / "repo")
    local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"]
    git(*local, "add", library.top, "lib", cwd=repository.top)
    git("commit", "-qm", "with a library", cwd=repository.top)
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    git(*local, "update", "--init", cwd=workspace.root)
    assert not workspace.holds_work(), "all of it is in the library"
    git(
        "-C",
        "lib",
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@e",
        "commit",
        "--allow-empty",
        "-qm",
        "x",
        cwd=workspace.root,
    )
    workspace.difference()
    assert workspace.release(applied=True) == workspace.root
    workspace.discard()
    assert branches(repository) == {"main"} and not (tmp_path / "run").exists()


def test_a_branch_that_moved_on_is_not_discarded(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    Path(workspace.root, "a.txt").write_text("two\n")
    workspace.publish("the task")
    git("update-ref", "refs/heads/treadle/r1", repository.commit(), cwd=repository.top)
    workspace.discard()
    assert branches(repository) == {"main", "treadle/r1"} and not (tmp_path / "run").exists()


def test_a_branch_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    workspace = open_in(tmp_path, Path(repository.top), "worktree")
    Path(workspace.root, "a.txt").write_text("two\n")
    git("branch", "treadle/r1", cwd=repository.top)
    with pytest.raises(WorkspaceError, match="update-ref"):
        workspace.publish("the task")
    assert repository.commit("treadle/r1") == repository.commit()


def test_what_a_run_made_unreadable_is_seen_and_kept(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source)
    hide(workspace.root)
    assert workspace.difference().status.splitlines() == ["A  hidden", "A  locked/inside"]
    assert workspace.release() == workspace.root


def hide(root: str) -> None:
    Path(root, "hidden").write_text("h\n")
    Path(root, "hidden").chmod(0)
    Path(root, "locked").mkdir()
    Path(root, "locked", "inside").write_text("i\n")
    Path(root, "locked").chmod(0)


def test_refs_that_are_a_link_are_not_searched(tmp_path: Path, source: Path) -> None:
    """`os.walk` follows a link at its top: to `/`, it took minutes."""
    workspace = open_in(tmp_path, source, "worktree")
    elsewhere = tmp_path / "elsewhere" / "heads"
    elsewhere.mkdir(parents=True)
    (elsewhere / "x").write_text("1" * 40 + "\n")
    refs = Path(workspace.top) / ".git" / "refs"
    shutil.rmtree(refs)
    refs.symlink_to(tmp_path / "elsewhere")
    assert not workspace.has_committed()


def test_the_directory_itself_is_watched_and_left_alone(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source, "pass_through")
    assert workspace.root == str(source)
    (source / "notes.md").unlink()
    assert [(change.kind, change.path) for change in workspace.difference().changes] == [("deleted", "notes.md")]
    assert workspace.release() is None and source.exists()


def test_what_we_keep_in_the_persons_git_directory_is_no_act_of_the_agent(tmp_path: Path) -> None:
    top = Path(make(tmp_path / "repo").top)
    workspace = open_in(tmp_path, top, "pass_through")
    for name in ("heimdall/protocol.log", "heimdalls"):
        (top / ".git" / name).parent.mkdir(exist_ok=True)
        (top / ".git" / name).write_text("x")
    assert workspace.difference().hidden == (".git/heimdalls",)


def written(workspace: Workspace, place: Path, bring: list[str] | None = None) -> set[str]:
    """The files of a result, written into a fresh directory, without those of git."""
    place.mkdir()
    here = Path(workspace.write_result(str(place), bring))
    assert here.is_dir() and os.path.commonpath([here, place]) == str(place)
    return {str(path.relative_to(place)) for path in place.rglob("*") if ".git/" not in f"{path.relative_to(place)}/"}


def test_a_result_is_written_with_what_is_brought_of_the_source(tmp_path: Path) -> None:
    source = Path(make(tmp_path / "source").top)
    for name in ("build/x.log", "y.log"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("ignored")
    runs = []
    for mode in ("staged", "worktree", "pass_through"):
        (tmp_path / mode).mkdir()
        runs.append(prepare(mode, str(source), str(tmp_path / mode), name="r1"))
    for run in runs[:2]:
        Path(run.root, "new.txt").write_text("n")
    staged, tree, own = runs
    plain = {"a.txt", ".gitignore"}
    assert written(staged, tmp_path / "s1", []) == {*plain, "new.txt"}
    assert written(staged, tmp_path / "s2", ["build", "none"]) == {*plain, "new.txt", "build", "build/x.log"}
    assert written(tree, tmp_path / "w1") == {*plain, "new.txt"}
    assert written(tree, tmp_path / "w2", ["y.log"]) == {*plain, "new.txt", "y.log"}
    assert (tmp_path / "w2" / ".git").is_dir() and not (tmp_path / "s2" / ".git").exists()
    (source / "y.log").write_text("changed by the run, and longer")
    (source / "new.txt").write_text("n")
    assert written(own, tmp_path / "p1") == {*plain, "new.txt", "build", "build/x.log"}, "not what the run changed"
    assert written(own, tmp_path / "p2", ["y.log", "./build/"]) == {*plain, "new.txt", "build", "build/x.log"}
    assert (tmp_path / "p2" / "new.txt").read_text() == "n" and (tmp_path / "p2" / ".git").is_dir()
    (tmp_path / "deep").mkdir()
    (source / "sub").mkdir()
    (source / "sub" / "b.txt").write_text("b")
    git("add", "-A", cwd=str(source))
    git("commit", "-qm", "more", cwd=str(source))
    inner = prepare("worktree", str(source / "sub"), str(tmp_path / "deep"), name="r2")
    (tmp_path / "d1").mkdir()
    assert inner.write_result(str(tmp_path / "d1")) == str(tmp_path / "d1" / "sub")
    assert not (tmp_path / "d1" / ".git").exists() and (tmp_path / "d1" / "a.txt").exists()
