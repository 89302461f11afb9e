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


@pytest.mark.parametrize("path", ["../secret", "way", "/etc/passwd", "none", "out", "", "a\0b", "../root-2/x"])
def test_what_is_missing_or_lies_elsewhere_is_said(root: Path, path: str) -> None:
    (found,) = collected(root, path)
    assert found.copy is None and found.problem and found.path == path
    assert not (root.parent / "kept").exists()


def test_there_is_an_end_to_what_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_BYTES", 6)
    monkeypatch.setattr(artifacts, "MOST_FILES", 2)
    kept = [one.copy is not None for one in collected(root, "out/a.log", "out/a.log", "out/a.log")]
    assert kept == [True, False, False]
