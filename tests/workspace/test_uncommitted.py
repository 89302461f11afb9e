"""What is not committed, compared with what git itself says, and the files that are offered when a name is begun."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import WorkspaceError
from treadle.io.process.programs import run_program
from treadle.workspace import checkouts, uncommitted
from treadle.workspace.uncommitted import LARGEST, Uncommitted, listed, matching
from treadle.workspace.user_repository import UserRepository


def found(repository: Repository) -> Uncommitted:
    return uncommitted.find(checkouts.around(repository.top))


def patch(repository: Repository) -> str:
    return uncommitted.patch(checkouts.around(repository.top))[0].decode()


def test_a_clean_checkout_has_nothing(repository: Repository) -> None:
    assert found(repository).changed == found(repository).new == () and patch(repository) == ""


def test_changed_staged_deleted_renamed_and_new_files_are_found(repository: Repository) -> None:
    top = Path(repository.top)
    for name in ("b", "c", "d"):
        (top / name).write_text(f"{name}\n")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    (top / "a.txt").write_text("two\n")
    (top / "b").unlink()
    git("mv", "c", "e", cwd=repository.top)
    (top / "d").chmod(0o755)
    (top / "deep").mkdir()
    (top / "deep" / "new ü\n.txt").write_text("new\n")
    (top / "link").symlink_to("/etc/hostname")
    (top / "noise.log").write_text("ignored\n")
    made = found(repository)
    assert made.changed == ("a.txt", "b", "c", "d", "e") and set(made.new) == {"deep/new ü\n.txt", "link"}


def test_the_patch_makes_the_same_files(repository: Repository, tmp_path: Path) -> None:
    top = Path(repository.top)
    (top / "a.txt").write_text("two\n")
    (top / "new.bin").write_bytes(bytes(range(256)))
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    data, left_out = uncommitted.patch(checkouts.around(repository.top))
    copy = tmp_path / "copy"
    git("clone", "--quiet", repository.top, str(copy), cwd=str(tmp_path))
    git("apply", "-", cwd=str(copy), stdin=data)
    assert left_out == [] and (copy / "new.bin").read_bytes() == bytes(range(256))
    assert (copy / "a.txt").read_text() == "two\n" and os.access(copy / "run.sh", os.X_OK)


def test_without_a_commit_everything_is_new_or_changed(tmp_path: Path) -> None:
    repository = make(tmp_path / "empty", commit=False)
    git("add", "a.txt", cwd=repository.top)
    made = found(repository)
    assert made.changed == ("a.txt",) and made.new == (".gitignore",) and "+one" in patch(repository)


def test_rules_of_the_repository_and_of_the_person_are_kept(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "git").mkdir(parents=True)
    (tmp_path / "config" / "git" / "ignore").write_text("*.swp\n")
    Path(repository.common, "info", "exclude").write_text("/mine\n")
    for name in ("a.swp", "mine", "shown"):
        Path(repository.top, name).write_text("x")
    assert found(repository).new == ("shown",)


def test_a_split_index_and_a_sparse_checkout_are_read(repository: Repository) -> None:
    top = Path(repository.top)
    (top / "left").mkdir()
    (top / "left" / "out.txt").write_text("x")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    git("sparse-checkout", "set", "--no-cone", "/*", "!/left/", cwd=repository.top)
    git("update-index", "--split-index", cwd=repository.top)
    assert not (top / "left").exists() and found(repository).changed == ()


def test_files_in_conflict_are_changed(repository: Repository) -> None:
    git("checkout", "-qb", "side", cwd=repository.top)
    for branch, text in (("side", "side\n"), ("main", "main\n")):
        git("checkout", "-q", branch, cwd=repository.top)
        Path(repository.top, "a.txt").write_text(text)
        git("commit", "-qam", branch, cwd=repository.top)
    run_program(["git", "merge", "side"], cwd=repository.top)
    assert found(repository).changed == ("a.txt",) and "+<<<<<<<" in patch(repository)


def test_a_submodule_that_moved_is_changed_and_its_files_are_not_listed(repository: Repository, tmp_path: Path) -> None:
    local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"]
    git(*local, "add", make(tmp_path / "library").top, "lib", cwd=repository.top)
    git("commit", "-qm", "with a library", cwd=repository.top)
    assert found(repository).changed == found(repository).new == ()
    inner = os.path.join(repository.top, "lib")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    git(*who, "commit", "-q", "--allow-empty", "-m", "moved", cwd=inner)
    assert found(repository).changed == ("lib",) and found(repository).new == ()


def test_what_is_too_large_is_named_and_not_shown(repository: Repository) -> None:
    with Path(repository.top, "large").open("wb") as file:
        file.truncate(LARGEST + 1)
    os.mkfifo(Path(repository.top, "pipe"))
    assert uncommitted.patch(checkouts.around(repository.top)) == (b"", ["large"])


def test_a_commit_that_cannot_be_read_is_an_error_and_no_empty_checkout(repository: Repository) -> None:
    user = UserRepository.at(repository.top)
    assert user is not None
    tree = repository.git("rev-parse", "HEAD^{tree}").strip()
    Path(repository.common, "objects", tree[:2], tree[2:]).unlink()
    with pytest.raises(WorkspaceError, match="git ls-tree failed"):
        uncommitted.find(user)


def test_without_git_hidden_files_are_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", ".hidden/b.txt", "c/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(listed(str(tmp_path))) == ["a.txt", "c/d.txt"]


def test_a_repository_cannot_have_a_program_run_by_being_listed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a").touch()
    subprocess.run(["git", "-C", str(tmp_path), "add", "a"], check=True)
    for name, value in (("core.fsmonitor", f"touch {tmp_path}/ran; false"), ("core.untrackedCache", "true")):
        subprocess.run(["git", "-C", str(tmp_path), "config", name, value], check=True)
    assert listed(str(tmp_path)) == ["a"] and not (tmp_path / "ran").exists()


def test_ignored_files_are_left_out_in_a_repository_and_there_is_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("a.log", "b.txt", ".hidden/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(listed(str(tmp_path))) == [".gitignore", ".hidden/c.txt", "b.txt"]
    monkeypatch.setattr(uncommitted, "FILES", 2)
    assert len(listed(str(tmp_path))) == 2
    many = [f"x{number:03}" for number in range(60)]
    assert matching(many, "X") == many[:50] and matching(many, "y") == [] and matching(["b", "a"], "") == ["a", "b"]
