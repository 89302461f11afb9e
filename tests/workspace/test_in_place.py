"""The directory itself as the workspace: watched, and left alone."""

from pathlib import Path

from tests.workspace.sources import open_in


def test_the_directory_itself_is_watched_and_left_alone(tmp_path: Path, source: Path) -> None:
    workspace = open_in(tmp_path, source, "pass_through")
    assert workspace.root == str(source)
    (source / "notes.md").unlink()
    assert [(change.kind, change.path) for change in workspace.difference().changes] == [("deleted", "notes.md")]
    assert workspace.release() is None and source.exists()


def test_a_directory_without_a_repository_can_be_watched_too(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    workspace = open_in(tmp_path, plain, "pass_through")
    (plain / "n.txt").write_text("n")
    assert [change.path for change in workspace.difference().changes] == ["n.txt"]
