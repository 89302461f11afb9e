import subprocess
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository
from treadle.errors import WorkspaceError
from treadle.workspace.git import is_forbidden, is_git
from treadle.workspace.store import Store
from treadle.workspace.workspace import WorkspaceMode, prepare

TAKEN = [
    ".git",
    ".GIT",
    ".g\u200cit",
    *(f".g{first_or_last}it" for first_or_last in "\u200f\u202a\u202e\u206a\u206f"),
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


def refused_by_fsck(place: Path, names: list[str]) -> list[str]:
    """Those of the names that git itself says a tree must not have."""
    store = Store.make(str(place))
    blob = bytes.fromhex(store.put("blob", b"x"))
    trees = {store.put("tree", b"100644 %s\0" % name.encode() + blob): name for name in names}
    words = ["git", "--git-dir", str(place), "fsck", "--strict"]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stderr.splitlines()
    found = {line.split("in tree ")[1].split(":")[0] for line in lines if "hasDotgit" in line}
    return [name for tree, name in trees.items() if tree in found]


def test_the_names_are_those_that_git_itself_refuses(tmp_path: Path) -> None:
    assert refused_by_fsck(tmp_path / "s", [*TAKEN, *PLAIN]) == TAKEN
    for name in (*TAKEN, *PLAIN):
        assert is_git(name) is is_forbidden(name) is (name in TAKEN), name


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_is_forbidden_too(name: str) -> None:
    assert is_forbidden(name) and not is_git(name)


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
