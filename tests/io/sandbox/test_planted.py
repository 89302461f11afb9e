"""What a command made although no mount could prevent it."""

import os
from pathlib import Path

import pytest

from treadle.io.sandbox import places, planted


@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".vscode"])
def test_a_protected_name_that_is_new_is_found_and_taken_away(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    before = planted.ProtectedNames(places.protected_in(str(workspace)))
    path = workspace / name
    if name == ".vscode":
        path.mkdir()
        (path / "post-commit").write_text("evil")
    else:
        path.write_text("evil")
    assert before.changed() == [str(path)]
    moved = planted.move_aside([str(path)], str(tmp_path / "aside"))
    assert not path.exists() and os.path.lexists(moved[0][1])


def test_two_of_one_name_are_both_kept(tmp_path: Path) -> None:
    for content in ("one", "two"):
        (tmp_path / ".envrc").write_text(content)
        planted.move_aside([str(tmp_path / ".envrc")], str(tmp_path / "aside"))
    assert sorted(file.read_text() for file in (tmp_path / "aside").iterdir()) == ["one", "two"]


@pytest.mark.parametrize("how", ["another link", "a directory", "nothing"])
def test_a_protected_link_is_put_back_as_it_was(tmp_path: Path, how: str) -> None:
    workspace = tmp_path / "w"
    (workspace / "config").mkdir(parents=True)
    os.symlink("config", workspace / ".vscode")
    before = planted.ProtectedNames(places.protected_in(str(workspace)))
    assert before.changed() == []
    (workspace / ".vscode").unlink()
    if how == "another link":
        os.symlink("evil", workspace / ".vscode")
    elif how == "a directory":
        (workspace / ".vscode").mkdir()
    assert before.changed() == [str(workspace / ".vscode")]
    planted.move_aside(before.changed(), str(tmp_path / "aside"))
    before.restore()
    assert os.readlink(workspace / ".vscode") == "config" and before.changed() == []


def test_nothing_is_moved_through_a_link_that_took_the_place_of_a_directory(tmp_path: Path) -> None:
    """A program that still runs can swap it between the look and the move."""
    other, workspace = tmp_path / "other", tmp_path / "w"
    (other / ".git").mkdir(parents=True)
    workspace.mkdir()
    (workspace / "sub").symlink_to(other)
    assert planted.move_aside([str(workspace / "sub" / ".git")], str(tmp_path / "aside")) == []
    assert (other / ".git").is_dir()
    (workspace / ".git").symlink_to(other)
    [(_, at)] = planted.move_aside([str(workspace / ".git")], str(tmp_path / "aside"))
    assert os.readlink(at) == str(other) and (other / ".git").is_dir()
