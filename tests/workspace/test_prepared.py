"""What is written down of a workspace, so that it is found again."""

from pathlib import Path

from tests.workspace.sources import open_in
from treadle.workspace.reopened import open_workspace


def test_a_workspace_is_found_again_after_a_crash(tmp_path: Path, source: Path) -> None:
    first = open_in(tmp_path, source)
    Path(first.root, "new.txt").write_text("n")
    again = open_workspace(str(tmp_path / "run"))
    assert again is not None and [change.path for change in again.difference().changes] == ["new.txt"]
    assert open_workspace(str(tmp_path)) is None
