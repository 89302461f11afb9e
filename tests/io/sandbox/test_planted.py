"""What a command made although no mount could prevent it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository
from treadle.io.sandbox import places, planted


def test_a_new_repository_made_by_git_is_nobodys_trap(tmp_path: Path) -> None:
    before = planted.ProtectedNames(places.protected_in(str(tmp_path)))
    repository(tmp_path)
    subprocess.run(["git", "-C", str(tmp_path), "config", "user.name", "a"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", "https://example.com/x.git"], check=True)
    assert before.changed() in ([], [str(tmp_path / ".git" / "info" / "attributes")])


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\tfsmonitor = ./evil\n",
        "[core]\n\tbare = false\n\tsshCommand = evil\n",
        '[filter "x"]\n\tsmudge = evil\n',
        "[include]\n\tpath = ../evil\n",
        "[alias]\n\tst = !evil\n",
        "[core] fsmonitor = evil\n",
        "[co\\\nre]\n",
        "\xff",
    ],
)
def test_a_config_that_could_run_something_is_found(tmp_path: Path, config: str) -> None:
    before = planted.ProtectedNames(places.protected_in(str(tmp_path)))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(config.encode("latin-1"))
    assert before.changed() == [str(tmp_path / ".git" / "config")]


@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".vscode", ".git/commondir", ".git/hooks"])
def test_a_protected_name_that_is_new_is_found_and_taken_away(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    before = planted.ProtectedNames(places.protected_in(str(workspace)))
    path = workspace / name
    path.parent.mkdir(exist_ok=True)
    if name in (".vscode", ".git/hooks"):
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


def test_a_link_is_never_harmless(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    before = planted.ProtectedNames(places.protected_in(str(tmp_path)))
    (tmp_path / "good").write_text("")
    os.symlink(tmp_path / "good", tmp_path / ".git" / "config")
    assert before.changed() == [str(tmp_path / ".git" / "config")]


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
