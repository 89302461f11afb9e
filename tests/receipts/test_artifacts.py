"""Files that a receipt names are kept before their workspace goes."""

import hashlib
import os
from pathlib import Path

import pytest

from treadle.receipts import artifacts
from treadle.receipts.artifacts import Collected, collect
from treadle.wire.sidecar.receipts import Artifact


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "out").mkdir(parents=True)
    (tmp_path / "root" / "out" / "a.log").write_text("said")
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "root" / "way").symlink_to(tmp_path / "secret")
    return tmp_path / "root"


def collected(root: Path, *paths: str) -> list[Collected]:
    return collect([Artifact(kind="log", path=path) for path in paths], str(root), str(root.parent / "kept"))


def test_a_file_is_copied_and_hashed_under_a_name_of_its_own(root: Path) -> None:
    one, two = collected(root, "out/a.log", str(root / "out" / "a.log"))
    assert one.copy and Path(one.copy).read_text() == "said" and one.copy != two.copy
    assert one.sha256 == hashlib.sha256(b"said").hexdigest() and one.bytes == 4
    assert os.stat(one.copy).st_mode & 0o777 == 0o600


def test_a_copy_has_the_files_own_name_in_plain_letters(root: Path) -> None:
    (root / "out" / "é b?.log").write_text("")
    (root / "out" / ("x" * 120)).write_text("")
    paths = ("out/é b?.log", "out/a.log/", f"out/{'x' * 120}")
    names = [os.path.basename(one.copy or "") for one in collected(root, *paths)]
    assert names == ["0-é_b_.log", "1-artifact", f"2-{'x' * 100}"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../secret", "it is not in the workspace"),
        ("../root-2/x", "it is not in the workspace"),
        ("way", "it is not in the workspace"),
        ("/etc/passwd", "it is not in the workspace"),
        (".", "it is not in the workspace"),
        ("none", "it is not there: No such file or directory"),
        ("out", "it is not a file"),
        ("", "it is not the name of a file"),
        ("a\0b", "it is not the name of a file"),
    ],
)
def test_what_is_missing_or_lies_elsewhere_is_said(root: Path, path: str, problem: str) -> None:
    (root.parent / "root-2").mkdir()
    (root.parent / "root-2" / "x").write_text("not yours")
    assert collected(root, path) == [Collected(kind="log", path=path, problem=problem)]
    assert not (root.parent / "kept").exists()


def test_there_is_an_end_to_what_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_BYTES", 10)
    monkeypatch.setattr(artifacts, "MOST_FILES", 4)
    (root / "two").write_text("ab")
    kept = collected(root, "out/a.log", "out/a.log", "out/a.log", "two", "two")
    full = "it has 4 bytes, and 2 are left for this run"
    assert [one.problem for one in kept] == [None, None, full, None, "only the first 4 are kept"]
    assert [one.bytes for one in kept] == [4, 4, None, 2, None]
