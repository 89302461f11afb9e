"""What is not committed, compared with what git itself says, in a real checkout."""

import os
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import WorkspaceError
from treadle.io.process.programs import run_program
from treadle.workspace import checkouts, uncommitted
from treadle.workspace.changes import TreeEntry
from treadle.workspace.store import Store
from treadle.workspace.uncommitted import LARGEST, Uncommitted
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


def test_each_kind_of_file_is_taken_as_it_is_and_what_is_none_is_left_out(
    repository: Repository, user: UserRepository, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncommitted, "LARGEST", 5)
    top = Path(repository.top)
    for name, text in (("exact", "12345"), ("over", "123456"), ("run", "x"), ("deep/in", "y")):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text)
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("nowhere")
    (top / "way").symlink_to("deep")
    os.mkfifo(top / "pipe")
    module = TreeEntry(mode="160000", blob="1" * 40)
    paths = ["exact", "over", "run", "link", "pipe", "deep", "deep/in", "way/in", "none", "exact/x", "lib"]
    made, left_out = uncommitted.now(user, store, paths, {"lib": module})
    assert {path: entry.mode for path, entry in made.items()} == {
        "exact": "100644",
        "run": "100755",
        "link": "120000",
        "deep/in": "100644",
        "lib": "160000",
    }
    assert left_out == ["over", "pipe", "way/in"] and store.blobs([made["link"].blob]) == {
        made["link"].blob: b"nowhere"
    }
    assert uncommitted.find(user, new=False).new == () and "exact" in uncommitted.find(user).new


def test_a_commit_that_cannot_be_read_is_an_error_and_no_empty_checkout(repository: Repository) -> None:
    user = UserRepository.at(repository.top)
    assert user is not None
    tree = repository.git("rev-parse", "HEAD^{tree}").strip()
    Path(repository.common, "objects", tree[:2], tree[2:]).unlink()
    with pytest.raises(WorkspaceError, match="git ls-tree failed"):
        uncommitted.find(user)
