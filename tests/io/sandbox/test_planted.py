"""What a command made although no mount could prevent it."""

import os
from pathlib import Path

import pytest

from treadle.io.sandbox import places


@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".vscode"])
def test_a_protected_name_that_is_new_is_found_and_taken_away(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    before = places.ProtectedNames(places.protected_in(str(workspace)))
    path = workspace / name
    if name == ".vscode":
        path.mkdir()
        (path / "post-commit").write_text("evil")
    else:
        path.write_text("evil")
    assert before.changed() == [str(path)]
    moved = places.move_aside([str(path)], str(tmp_path / "aside"))
    assert not path.exists() and os.path.lexists(moved[0][1])


def test_two_of_one_name_are_both_kept(tmp_path: Path) -> None:
    for content in ("one", "two"):
        (tmp_path / ".envrc").write_text(content)
        places.move_aside([str(tmp_path / ".envrc")], str(tmp_path / "aside"))
    assert sorted(file.read_text() for file in (tmp_path / "aside").iterdir()) == ["one", "two"]


@pytest.mark.parametrize("how", ["another link", "a directory", "nothing"])
def test_a_protected_link_is_put_back_as_it_was(tmp_path: Path, how: str) -> None:
    workspace = tmp_path / "w"
    (workspace / "config").mkdir(parents=True)
    os.symlink("config", workspace / ".vscode")
    before = places.ProtectedNames(places.protected_in(str(workspace)))
    assert before.changed() == []
    (workspace / ".vscode").unlink()
    if how == "another link":
        os.symlink("evil", workspace / ".vscode")
    elif how == "a directory":
        (workspace / ".vscode").mkdir()
    assert before.changed() == [str(workspace / ".vscode")]
    places.move_aside(before.changed(), str(tmp_path / "aside"))
    before.restore()
    assert os.readlink(workspace / ".vscode") == "config" and before.changed() == []


def test_nothing_is_moved_through_a_link_that_took_the_place_of_a_directory(tmp_path: Path) -> None:
    """A program that still runs can swap it between the look and the move."""
    other, workspace = tmp_path / "other", tmp_path / "w"
    (other / ".git").mkdir(parents=True)
    workspace.mkdir()
    (workspace / "sub").symlink_to(other)
    assert places.move_aside([str(workspace / "sub" / ".git")], str(tmp_path / "aside")) == []
    assert (other / ".git").is_dir()
    (workspace / ".git").symlink_to(other)
    [(_, at)] = places.move_aside([str(workspace / ".git")], str(tmp_path / "aside"))
    assert os.readlink(at) == str(other) and (other / ".git").is_dir()


def test_what_files_held_is_restored_where_that_is_asked_for_and_a_git_directory_is_let_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    for name in ("AGENTS.md", ".husky/pre-commit", ".git/HEAD"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("before")
    (workspace / ".husky" / "pre-commit").chmod(0o755)
    names = [str(workspace / name) for name in ("AGENTS.md", ".husky", ".git")]
    before = places.ProtectedNames(names, keep=True)
    assert before.changed() == []
    for name in ("AGENTS.md", ".husky/pre-commit", ".git/HEAD"):
        (workspace / name).write_text("after")
    found = before.changed()
    assert found == [names[0], f"{names[1]}/pre-commit"]
    assert len(places.move_aside(found, str(tmp_path / "aside"))) == 2
    before.restore()
    assert (workspace / "AGENTS.md").read_text() == (workspace / ".husky" / "pre-commit").read_text() == "before"
    assert os.access(workspace / ".husky" / "pre-commit", os.X_OK) and (workspace / ".git/HEAD").read_text() == "after"


def test_what_is_too_large_or_behind_a_link_is_not_kept_and_without_being_asked_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SAVED_BYTES", 4)
    (tmp_path / "dir" / "in").mkdir(parents=True)
    for name, held in (("small", "1234"), ("large", "12345"), ("dir/b", "b"), ("dir/a", "a"), ("dir/in/c", "c")):
        (tmp_path / name).write_text(held)
    (tmp_path / "link").symlink_to("dir")
    names = [str(tmp_path / name) for name in ("large", "link", "small", "dir", "none")]
    before = places.ProtectedNames(names, keep=True)
    assert [os.path.relpath(one, tmp_path) for one in before.held] == ["small", "dir/a", "dir/b", "dir/in/c"]
    assert before.absent == [names[-1]] and before.links == {names[1]: "dir"}
    monkeypatch.setattr(places, "SAVED_FILES", 2)
    assert len(places.ProtectedNames(names, keep=True).held) == 2
    plain = places.ProtectedNames(names)
    (tmp_path / "small").write_text("5678")
    assert plain.held == {} and plain.changed() == [] and before.changed() == [names[2]]
    (tmp_path / "small").chmod(0o600)
    (tmp_path / "small").write_text("1234")
    assert before.changed() == [names[2]], "its permissions, too"


def test_what_is_gone_with_its_directory_is_restored_and_what_cannot_be_is_let_be(tmp_path: Path) -> None:
    for name in ("a/file", "b/file", "c/x"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    (tmp_path / "c" / "link").symlink_to("x")
    before = places.ProtectedNames([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c" / "link")], keep=True)
    for name in ("a/file", "b/file", "c/x", "c/link"):
        (tmp_path / name).unlink()
        if name != "c/x":
            (tmp_path / name).parent.rmdir()
    (tmp_path / "b").touch()
    before.restore()
    assert (tmp_path / "a" / "file").read_text() == "a/file" and (tmp_path / "b").is_file()
    assert not (tmp_path / "c").exists()


def test_what_is_moved_aside_is_numbered_and_what_is_gone_is_left_out(tmp_path: Path) -> None:
    aside = tmp_path / "x" / "aside"
    moved = []
    for content in ("one", "two"):
        (tmp_path / ".envrc").write_text(content)
        moved += places.move_aside([str(tmp_path / "gone"), str(tmp_path / ".envrc")], str(aside))
    assert moved == [(str(tmp_path / ".envrc"), str(aside / f".envrc.{number}")) for number in range(2)]
    assert [(aside / f".envrc.{number}").read_text() for number in range(2)] == ["one", "two"]
    assert aside.stat().st_mode & 0o777 == 0o700
