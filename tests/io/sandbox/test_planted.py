"""What a command has made that no mount could prevent."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository
from treadle.io.sandbox import places, planted


def test_a_new_repository_made_by_git_is_nobodys_trap(tmp_path: Path) -> None:
    missing = planted.absent(places.protected_in(str(tmp_path)))
    repository(tmp_path)
    subprocess.run(["git", "-C", str(tmp_path), "config", "user.name", "a"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", "https://example.com/x.git"], check=True)
    assert planted.appeared(missing) in ([], [str(tmp_path / ".git" / "info" / "attributes")])


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
    missing = planted.absent(places.protected_in(str(tmp_path)))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(config.encode("latin-1"))
    assert planted.appeared(missing) == [str(tmp_path / ".git" / "config")]


@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".vscode", ".git/commondir", ".git/hooks"])
def test_a_protected_name_that_is_new_is_found_and_taken_away(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    missing = planted.absent(places.protected_in(str(workspace)))
    path = workspace / name
    path.parent.mkdir(exist_ok=True)
    if name in (".vscode", ".git/hooks"):
        path.mkdir()
        (path / "post-commit").write_text("evil")
    else:
        path.write_text("evil")
    assert planted.appeared(missing) == [str(path)]
    moved = planted.move_aside([str(path)], str(tmp_path / "aside"))
    assert not path.exists() and os.path.lexists(moved[0][1])


def test_two_of_one_name_are_both_kept(tmp_path: Path) -> None:
    for content in ("one", "two"):
        (tmp_path / ".envrc").write_text(content)
        planted.move_aside([str(tmp_path / ".envrc")], str(tmp_path / "aside"))
    assert sorted(file.read_text() for file in (tmp_path / "aside").iterdir()) == ["one", "two"]


def test_a_link_is_never_harmless(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    missing = planted.absent(places.protected_in(str(tmp_path)))
    (tmp_path / "good").write_text("")
    os.symlink(tmp_path / "good", tmp_path / ".git" / "config")
    assert planted.appeared(missing) == [str(tmp_path / ".git" / "config")]
