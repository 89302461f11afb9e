"""The file system as rules see it: this machine's, or only the names."""

import os
from pathlib import Path

from treadle.io.machine import DISK
from treadle.policy.rules import AsWritten, Disk


def test_names_alone_are_followed_nowhere(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    names: Disk = AsWritten(DISK)
    assert names.real(f"{tmp_path}/x/../link") == f"{tmp_path}/link"
    assert list(names.found(str(tmp_path), "*")) == []
    assert names.expand("~/x") == os.path.expanduser("~/x")
