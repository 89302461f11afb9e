"""A first look and a second one: what differs between them, even if git ignores it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.workspace.scan import Scan


def filled(root: Path) -> Path:
    (root / "folder" / "inner").mkdir(parents=True)
    (root / ".git" / "hooks").mkdir(parents=True)
    for name in ("a", "folder/b", "folder/inner/c", ".git/config", ".env"):
        (root / name).write_text(name)
    (root / "link").symlink_to("a")
    return root


def tick(folder: Path) -> None:
    """Wait until the file system's clock has advanced."""
    probe = folder / "probe"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.write_text("")


def test_a_watched_file_that_is_rewritten_within_one_tick_is_found(tmp_path: Path) -> None:
    scan = Scan(str(filled(tmp_path)), lambda path: True)
    rewrite(tmp_path / "folder/b")
    assert scan.changed() == ["folder/b"]


def rewrite(path: Path) -> None:
    old = path.stat()
    path.write_text(path.read_text()[::-1])
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


CHANGES: list[tuple[Callable[[Path], object], list[str]]] = [
    (lambda root: None, []),
    (lambda root: (root / "new").write_text("n"), ["new"]),
    (lambda root: (root / "folder/inner/c").unlink(), ["folder/inner/c"]),
    (lambda root: (root / "a").write_text("b"), ["a"]),
    (lambda root: rewrite(root / "folder/b"), ["folder/b"]),
    (lambda root: (root / "a").rename(root / "z"), ["a", "z"]),
    (lambda root: (root / ".git/hooks/pre-commit").write_text("x"), [".git/hooks/pre-commit"]),
    (lambda root: (root / "a").chmod(0o777), ["a"]),
    (lambda root: ((root / "link").unlink(), (root / "link").symlink_to("b")), ["link"]),
    (lambda root: (root / "empty").mkdir(), []),
    (lambda root: ((root / "a").unlink(), (root / "a").mkdir(), (root / "a/x").write_text("")), ["a", "a/x"]),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
@pytest.mark.parametrize("watched", [None, lambda path: True])
def test_every_change_of_a_file_is_found(
    tmp_path: Path, change: Callable[[Path], object], expected: list[str], watched: Callable[[str], bool] | None
) -> None:
    root = filled(tmp_path / "root")
    tick(tmp_path)
    scan = Scan(str(root), watched)
    change(root)
    assert scan.changed() == expected


def test_only_what_is_watched_is_known_by_its_content(tmp_path: Path) -> None:
    scan = Scan(str(filled(tmp_path)), lambda path: path == "a")
    assert list(scan.hashes) == ["a"]
    for name in ("a", "folder/b"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).unlink()
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, ns=(1, 1))
    assert scan.changed() == ["folder/b"]


def test_what_lies_elsewhere_is_looked_at_under_its_name(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    filled(other)
    beside = {".git/hooks": f"{other}/folder", ".git/config": f"{other}/a", ".git/none": f"{other}/none"}
    scan = Scan(str(root), lambda path: True, beside)
    assert sorted(scan.hashes) == [".git/config", ".git/hooks/b", ".git/hooks/inner/c"]
    (other / "folder/b").write_text("changed")
    (other / "a").write_text("changed")
    (other / "none").write_text("made")
    assert scan.changed() == [".git/config", ".git/hooks/b", ".git/none"]


def test_a_directory_that_is_gone_has_lost_its_files(tmp_path: Path) -> None:
    scan = Scan(str(filled(tmp_path / "root")))
    (tmp_path / "root").rename(tmp_path / "moved")
    assert len(scan.changed()) == len(scan.entries) == 6


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=3)), st.data())
def test_the_difference_is_exactly_what_was_done(tmp_path: Path, files: dict[str, str], data: st.DataObject) -> None:
    root = tmp_path / os.urandom(4).hex()
    root.mkdir()
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8", errors="replace")
    scan = Scan(str(root), lambda path: True)
    then = data.draw(st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=3)))
    before = {name: (root / name).read_bytes() for name in files}
    for name in files.keys() - then.keys():
        (root / name).unlink()
    for name, text in then.items():
        (root / name).write_text(text, encoding="utf-8", errors="replace")
    after = {name: (root / name).read_bytes() for name in then}
    expected = sorted(name for name in "abcdef" if before.get(name) != after.get(name))
    assert scan.changed() == expected
