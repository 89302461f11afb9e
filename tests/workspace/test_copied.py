"""A copy for a run to work in, and what a check gets of the source beside the result."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import Cancelled, StorageError, WorkspaceError
from treadle.io import tasks
from treadle.workspace import directories as copying
from treadle.workspace.directories import Copy, bring_files, files_under


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "node_modules" / "a").mkdir(parents=True)
    (root / "node_modules" / "a" / "x.js").write_text("x")
    (root / "node_modules" / ".bin").symlink_to("a")
    (root / ".env").write_text("e")
    return root


def test_directories_and_files_are_brought_and_what_is_there_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / ".env").write_text("the result's own")
    paths = [path for name in ("node_modules", "./.env", "missing") for path in files_under(str(source), name)]
    assert sorted(paths) == [".env", "node_modules/.bin", "node_modules/a/x.js"]
    bring_files(str(source), str(target), paths)
    assert (target / "node_modules" / "a" / "x.js").read_text() == "x" and (
        target / "node_modules" / ".bin"
    ).is_symlink()
    assert (target / ".env").read_text() == "the result's own"


def test_a_brought_file_is_a_copy(source: Path, tmp_path: Path) -> None:
    bring_files(str(source), str(tmp_path / "target"), [".env"])
    (tmp_path / "target" / ".env").write_text("changed")
    assert (source / ".env").read_text() == "e"


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b"])
def test_only_what_is_in_the_source_can_be_brought(source: Path, name: str) -> None:
    with pytest.raises(WorkspaceError, match="is not in"):
        files_under(str(source), name)


def test_there_is_a_limit_with_what_to_do(source: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="--bring"):
        bring_files(str(source), str(tmp_path / "target"), [".env"], cap=0)


@pytest.mark.parametrize("linked", [False, True])
def test_no_link_of_the_result_is_followed(source: Path, tmp_path: Path, linked: bool) -> None:
    hooks, target = tmp_path / "hooks", tmp_path / "target"
    hooks.mkdir()
    target.mkdir()
    (target / "build").symlink_to(hooks)
    (target / "dangling").symlink_to(hooks / "pre-commit")
    for name in ("build/post-checkout", "build/deep/x", "dangling", "fine"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    bring_files(
        str(source), str(target), ["build/post-checkout", "build/deep/x", "dangling", "build", "fine"], linked=linked
    )
    assert list(hooks.iterdir()) == [] and (target / "fine").read_text() == "x"


def test_no_link_of_the_source_is_followed_unless_that_is_wanted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "id_rsa").write_text("SECRET")
    (source / "keys").symlink_to(secret)
    bring_files(str(source), str(tmp_path / "target"), ["keys/id_rsa"])
    assert not (tmp_path / "target" / "keys").exists()
    bring_files(str(source), str(tmp_path / "target"), ["keys", "node_modules", ".env"], linked=True)
    assert (tmp_path / "target" / "keys").resolve() == secret.resolve()
    assert (tmp_path / "target" / "node_modules").is_symlink() and (tmp_path / "target" / ".env").is_file()


def copied(
    source: Path, target: Path, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = (), cap: int = 100
) -> list[str]:
    target.mkdir(exist_ok=True)
    return Copy(str(source), str(target), include, exclude, cap).run()


def listed(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_copy_has_files_links_inside_and_empty_directories_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "source" / "copy"
    for name in (".git", "src/.git", "src/deep", "empty"):
        (source / name).mkdir(parents=True)
    (source / "run").write_text("x")
    (source / "run").chmod(0o755)
    (source / "src" / "a.py").write_text("a")
    (source / ".git" / "config").write_text("x")
    os.mkfifo(source / "pipe")
    (source / "in").symlink_to("src/a.py")
    (source / "src" / "whole").symlink_to("..")
    (source / "out").symlink_to("../elsewhere")
    (source / "absolute").symlink_to(source / "run")
    (tmp_path / "source-beside").mkdir()
    (source / "beside").symlink_to("../source-beside")
    notes = copied(source, target)
    assert notes == [
        f"{name} was left out: it is a link that leads out of the directory" for name in ("absolute", "beside", "out")
    ]
    assert listed(target) == ["empty", "in", "run", "src", "src/a.py", "src/deep", "src/whole"]
    assert os.access(target / "run", os.X_OK) and os.readlink(target / "in") == "src/a.py"


def test_what_is_included_is_copied_and_nothing_that_is_excluded(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("a.py", "b.txt", "deep/c.py", "deep/d.txt", "skip/e.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    (source / "empty").mkdir()
    assert copied(source, tmp_path / "one", include=("*.py", "deep/*.py"), exclude=("skip",)) == []
    assert listed(tmp_path / "one") == ["a.py", "deep", "deep/c.py"]
    assert copied(source, tmp_path / "two", exclude=("*.py", "deep")) == [] and "b.txt" in listed(tmp_path / "two")
    assert "deep" not in listed(tmp_path / "two")
    notes = copied(source, tmp_path / "three", include=("*.rs", "*.go"))
    assert notes == ["nothing was copied: no file fits *.rs, *.go"] and listed(tmp_path / "three") == []


def test_a_copy_has_a_limit_and_can_be_stopped(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in "ab":
        (source / name).write_bytes(b"12345")
    assert copied(source, tmp_path / "one", cap=10) == []
    with pytest.raises(WorkspaceError, match=f"{source} holds more than 9 bytes, which is the most") as error:
        copied(source, tmp_path / "two", cap=9)
    assert error.value.hint == "leave things out with --exclude, or use --workspace-mode worktree"
    word = threading.Event()
    word.set()
    with tasks.heeding(word), pytest.raises(Cancelled):
        copied(source, tmp_path / "three")
    with tasks.heeding(word), pytest.raises(Cancelled):
        bring_files(str(source), str(tmp_path / "four"), ["a"])


def test_what_may_not_be_read_or_lies_too_deep_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    (source / "file").write_text("x")
    deep = "d/" * (copying.DEPTH_CAP + 1)
    (source / deep).mkdir(parents=True)
    (source / deep / "x").touch()
    usual_scan, usual_open = os.scandir, os.open

    def scan(path: str) -> Any:
        if str(path).endswith("/closed"):
            raise PermissionError(errno.EACCES, "not for you")
        return usual_scan(path)

    def opening(path: str, *how: Any, **more: Any) -> int:
        if path == f"{source}/file":
            raise PermissionError(errno.EACCES, "not for you")
        return usual_open(path, *how, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scan)
        patched.setattr(os, "open", opening)
        notes = copied(source, tmp_path / "one")
    assert notes[0] == "closed was left out: not for you" and notes[2] == "file was left out: not for you"
    assert notes[1].endswith(f"... was left out: it lies more than {copying.DEPTH_CAP} directories deep")
    assert not (tmp_path / "one" / deep / "x").exists()
    with pytest.raises(StorageError, match="cannot read .*/none"):
        copied(tmp_path / "none", tmp_path / "two")


def test_what_is_brought_counts_together_and_nothing_of_git_is(source: Path, tmp_path: Path) -> None:
    (source / "a").write_bytes(b"12345")
    (source / "b").write_bytes(b"12345")
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    os.mkfifo(source / "pipe")
    (source / "in").symlink_to("a")
    paths = ["a", "b", ".git/config", "pipe", "in", "none", "a/x"]
    bring_files(str(source), str(tmp_path / "one"), paths, cap=10)
    assert listed(tmp_path / "one") == ["a", "b", "in"] and os.readlink(tmp_path / "one" / "in") == "a"
    with pytest.raises(WorkspaceError, match=f"what is to be brought from {source} has more than 9 bytes") as error:
        bring_files(str(source), str(tmp_path / "two"), paths, cap=9)
    assert error.value.hint == "name what the check needs with --bring"
    assert files_under(str(source), "in") == ["in"] and files_under(str(source), "./b") == ["b"]
    assert sorted(files_under(str(source), ".")) == [
        ".env", ".git/config", "a", "b", "in", "node_modules/.bin", "node_modules/a/x.js", "pipe",
    ]  # fmt: skip
