import subprocess
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository
from treadle.errors import WorkspaceError
from treadle.workspace.git_names import is_forbidden, is_git
from treadle.workspace.prepared import WorkspaceMode
from treadle.workspace.store import Store
from treadle.workspace.workspace import prepare

TAKEN = [
    ".git",
    ".GIT",
    ".g\u200cit",
    "\ufeff.gIt",
    "git~1",
    "GIT~1",
    ".git.",
    ".git ",
    ".git . .",
    ".git::$DATA",
    ".git\\x",
]
PLAIN = [".gitignore", ".gita", "git", "git~2", ".gi\u0131t", ".g it", "a.git", ".github", "\u200c", " .git"]


def fsck_refuses(place: Path, name: str) -> bool:
    """Whether git itself says that a tree must not have this name."""
    store = Store.make(str(place))
    blob = store.put("blob", b"x")
    store.put("tree", b"100644 %s\0" % name.encode() + bytes.fromhex(blob))
    words = ["git", "--git-dir", str(place), "fsck", "--strict"]
    return "hasDotgit" in subprocess.run(words, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("name", [*TAKEN, *PLAIN])
def test_the_names_are_those_that_git_itself_refuses(tmp_path: Path, name: str) -> None:
    assert is_git(name) is is_forbidden(name) is (name in TAKEN) is fsck_refuses(tmp_path / "s", name)


@pytest.mark.parametrize("mode", ["staged", "worktree", "pass_through"])
def test_such_a_name_is_not_in_the_result_and_that_is_said(
    repository: Repository, tmp_path: Path, mode: WorkspaceMode
) -> None:
    (tmp_path / "run").mkdir()
    workspace = prepare(mode, repository.top, str(tmp_path / "run"), name="r")
    names = [name for name in TAKEN if name != ".git"]
    for number, name in enumerate(names):
        place = Path(workspace.root, name)
        if number % 2:
            place.mkdir()
            (place / "config").write_text("[core]\n\tfsmonitor = evil\n")
        else:
            place.write_text("gitdir: elsewhere\n")
    Path(workspace.root, "work.txt").write_text("work\n")
    found = workspace.difference()
    assert [one.path for one in found.changes] == ["work.txt"]
    assert {one.path: one.kind for one in found.oddities} == dict.fromkeys(names, "git_directory")
    assert mode == "pass_through" or [*workspace.apply().written] == ["work.txt"]


def test_a_tree_with_such_a_name_is_refused_and_not_made(tmp_path: Path) -> None:
    store = Store.make(str(tmp_path / "s"))
    blob = store.put("blob", b"x")
    for name in TAKEN:
        with pytest.raises(WorkspaceError, match="is not a name for a file"):
            store.put_tree([(name.encode(), "100644", blob)])
