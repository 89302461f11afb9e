"""What is not committed in a checkout is counted without git, and what stands in the way of changing one is said."""

import os
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import WorkspaceError
from treadle.workspace import branch_moves, index_file
from treadle.workspace.changes import Delta, PathChange, TreeEntry
from treadle.workspace.checkouts import (
    CheckoutChange,
    around,
    branch_here,
    changed_files,
    find,
    of_branch,
    repository,
    uncommitted,
)
from treadle.workspace.store import GITLINK, Store, lending


def count(repository: Repository, tmp_path: Path) -> int | None:
    store = Store.make(str(tmp_path / f"store{len(os.listdir(tmp_path))}"), lenders=[f"{repository.common}/objects"])
    _, files = store.borrow_tree(repository.commit())
    return uncommitted(around(repository.top), files)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_changed_staged_and_deleted_files_count_and_touched_ones_do_not(tmp_path: Path, version: str) -> None:
    repository = make(tmp_path / "repo")
    top = Path(repository.top)
    for name in ("deep/one.txt", "deep/two.txt", "deep/three.txt", "gone.txt", "touched.txt"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(f"{name}\n")
    (top / "link").symlink_to("a.txt")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    git("update-index", "--index-version", version, cwd=repository.top)
    assert count(repository, tmp_path) == 0
    (top / "deep" / "one.txt").write_text("edited\n")
    (top / "deep" / "two.txt").write_text("staged\n")
    git("add", "deep/two.txt", cwd=repository.top)
    (top / "gone.txt").unlink()
    git("rm", "-q", "--cached", "deep/three.txt", cwd=repository.top)
    os.utime(top / "touched.txt", (1, 1))
    assert count(repository, tmp_path) == 4


def test_an_edit_whose_size_and_time_are_put_back_counts(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    file = Path(repository.top) / "old.txt"
    file.write_text("before")
    os.utime(file, (1, 1))
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    file.write_text("edited")
    os.utime(file, (1, 1))
    assert count(repository, tmp_path) == 1


def test_an_index_in_two_parts_is_not_guessed_at(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    git("update-index", "--split-index", cwd=repository.top)
    assert count(repository, tmp_path) is None


def test_a_repository_is_found_from_inside_without_git(tmp_path: Path) -> None:
    made = make(tmp_path / "repo")
    inside = tmp_path / "repo" / "deep" / "er"
    inside.mkdir(parents=True)
    assert around(str(inside)).top == repository(str(inside)).top == made.top
    assert branch_here(around(str(inside))) == "main"
    git("clone", "-q", "--bare", made.top, str(tmp_path / "bare"), cwd=str(tmp_path))
    assert repository(str(tmp_path / "bare")).is_bare
    git("checkout", "-q", "--detach", cwd=made.top)
    with pytest.raises(WorkspaceError, match="no branch is checked out in .*/repo") as error:
        branch_here(around(made.top))
    assert error.value.hint == "name one, or `git switch BRANCH`"
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / ".git").write_text("gitdir: /etc\n")
    assert find(str(inside)) is not None and find(str(tmp_path)) is None
    with pytest.raises(WorkspaceError, match="/plain/.git is not the git directory of a checkout") as error:
        find(str(tmp_path / "plain"))
    assert error.value.hint == "try git status there"
    with pytest.raises(WorkspaceError, match="not in a git repository"):
        around(str(tmp_path / "plain"))


def test_a_branch_does_not_move_over_a_file_that_the_persons_git_obeys(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    git("config", "include.path", "../team/gitconfig", cwd=repository.top)
    user = around(repository.top)
    old = repository.commit()
    store = Store.make(str(tmp_path / "store"), **lending(user))
    _, files = store.borrow_tree(old)
    evil = store.put("blob", b"[core]\n\tfsmonitor = evil\n")
    tree = store.put_files({**files, "team/gitconfig": TreeEntry(mode="100644", blob=evil)})
    with pytest.raises(WorkspaceError, match="team/gitconfig is read by your git"):
        branch_moves.move(user, "refs/heads/main", store, old, store.loose_commit(tree, [old]), "test")
    assert repository.commit() == old and not (tmp_path / "repo" / "team").exists()


def test_the_checkouts_of_a_branch_are_those_that_have_it_or_rebase_it(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    user = around(repository.top)
    branch = user.head()
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "two"), cwd=repository.top)
    git("worktree", "add", "-q", "--detach", str(tmp_path / "three"), cwd=repository.top)
    git("worktree", "add", "-q", "-b", "gone", str(tmp_path / "gone"), cwd=repository.top)
    (tmp_path / "gone").rename(tmp_path / "moved")

    def tops(ref: str) -> list[str]:
        return sorted(os.path.basename(each.top) for each in of_branch(user, ref))

    assert (tops(branch), tops("refs/heads/other"), tops("refs/heads/gone")) == (["repo"], ["two"], [])
    for name in ("rebase-merge", "rebase-apply"):
        place = Path(around(str(tmp_path / "three")).file(name))
        place.mkdir()
        (place / "head-name").write_text("refs/heads/other\n")
        assert (tops(branch), tops("refs/heads/other")) == (["repo"], ["three", "two"])
        (place / "head-name").unlink()


BLOB = "1" * 40
FILE, PROGRAM, LINK = (TreeEntry(mode=mode, blob=BLOB) for mode in ("100644", "100755", "120000"))


def delta(path: str, old: TreeEntry | None, new: TreeEntry | None) -> Delta:
    kind = "added" if old is None else "deleted" if new is None else "modified"
    return Delta(change=PathChange(kind=kind, path=path), old=old, new=new)  # type: ignore[arg-type]


class Changing:
    """A checkout with everything committed, and changes that are asked of it."""

    def __init__(self, base: Path) -> None:
        self.repository = make(base / "repo")
        self.top = Path(self.repository.top)
        (self.top / "dir").mkdir()
        for name in ("dir/one", "dir/two", "b", "c", "d"):
            (self.top / name).write_text(f"{name}\n")
        (self.top / "link").symlink_to("a.txt")
        self.commit()
        self.user = around(self.repository.top)
        self.store = Store.make(str(base / "store"), **lending(self.user))

    def commit(self) -> None:
        self.repository.git("add", "-A")
        self.repository.git("commit", "-qm", "more")

    def change(self, *deltas: Delta) -> CheckoutChange:
        _, files = self.store.borrow_tree(self.repository.commit())
        return CheckoutChange(self.user, files, deltas)

    def refused(self, *deltas: Delta) -> str:
        """Why it is refused, without the part that all have."""
        try:
            self.change(*deltas)
        except WorkspaceError as error:
            begin = f"{self.repository.top} has the branch checked out, and "
            assert str(error).startswith(begin)
            return str(error).removeprefix(begin)
        return ""


@pytest.fixture
def changing(tmp_path: Path) -> Changing:
    return Changing(tmp_path)


def test_what_is_unfinished_staged_or_changed_stands_in_the_way(changing: Changing) -> None:
    new = delta("new", None, FILE)
    assert changing.refused(new) == ""
    for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"):
        place = Path(changing.user.file(name))
        place.symlink_to("nowhere")
        assert changing.refused(new) == f"a merge, rebase or the like is unfinished there ({name}): end it first"
        place.unlink()
    assert changing.refused(delta(".git/config", None, FILE)) == (
        ".git/config belongs to git itself: change it there yourself"
    )
    every = [delta(name, FILE, PROGRAM) for name in ("a.txt", "b", "c", "d")]
    for name in ("a.txt", "b", "c"):
        (changing.top / name).write_text("edited\n")
    changed = "files were changed there and not committed ({}): commit or stash them first"
    assert changing.refused(*every) == changed.format("a.txt, b, c")
    (changing.top / "d").unlink()
    assert changing.refused(*every) == changed.format("a.txt, b, c and 1 more")
    assert changing.refused(new) == "", "only what it touches counts"
    for near in (delta("b/inside", None, FILE), delta("a.txt", FILE, None)):
        assert changing.refused(near) == changed.format(near.change.path.partition("/")[0])
    changing.repository.git("add", "-A")
    staged = "changes are staged there that are not committed ({}): commit or stash them first"
    assert changing.refused(*every) == staged.format("a.txt, b, c and 1 more") and changing.refused(new) == ""
    (changing.top / "mine").mkdir()
    (changing.top / "mine" / "file").touch()
    changing.repository.git("add", "mine/file")
    (changing.top / "mine" / "file").unlink()
    assert changing.refused(delta("mine", None, FILE)) == staged.format("mine/file"), "a file would replace it"
    changing.repository.git("rm", "-q", "--cached", "a.txt")
    lines = "".join(f"100644 {changing.repository.git('rev-parse', 'HEAD:b').strip()} {n}\tb\0" for n in (1, 2, 3))
    git("update-index", "-z", "--index-info", cwd=changing.repository.top, stdin=lines.encode())
    assert changing.refused() == "conflicts are unresolved there: resolve them first"


def test_untracked_files_in_the_way_are_named_and_what_goes_away_is_not_in_the_way(changing: Changing) -> None:
    (changing.top / "mine" / "deep").mkdir(parents=True)
    (changing.top / "mine" / "deep" / "x").touch()
    (changing.top / "mine" / "away").symlink_to("..")
    (changing.top / "file").touch()
    (changing.top / "out").symlink_to("/tmp")
    (changing.top / "empty").mkdir()

    def blocked(*deltas: Delta) -> str:
        return changing.refused(*deltas).removeprefix("untracked files are in the way (").partition(")")[0]

    assert blocked(delta("file", None, FILE)) == "file"
    assert blocked(delta("file/new", None, FILE)) == "file"
    assert blocked(delta("out/new", None, FILE)) == "out"
    assert blocked(delta("mine", None, FILE)) in ("mine/away", "mine/deep/x")
    assert blocked(delta("mine/new", None, FILE), delta("empty", None, FILE), delta("b", FILE, PROGRAM)) == ""
    assert blocked(delta("file", None, TreeEntry(mode=GITLINK, blob=BLOB))) == ""
    assert blocked(delta("b/new", None, FILE)) == "b"
    assert blocked(delta("b", FILE, None), delta("b/new", None, FILE)) == ""
    gone = [delta(f"dir/{name}", FILE, None) for name in ("one", "two")]
    assert blocked(delta("dir", None, FILE), *gone) == "" and blocked(delta("dir", None, FILE), gone[0]) == "dir/two"
    assert blocked(delta("link", None, FILE)) == "link" and blocked(delta("file", FILE, None)) == ""
    many = [delta(name, None, FILE) for name in ("file", "out", "link", "b")]
    assert blocked(*many) == "file, out, link and 1 more"


def test_a_name_that_is_not_utf_8_is_left_to_git(changing: Changing) -> None:
    name = os.fsdecode(b"bad\xff")
    assert changing.refused(delta(name, None, FILE)) == f"a name is not UTF-8 ({name!r}): merge this with git"
    assert changing.refused(delta("tab\there", None, FILE), delta("\u00fc", None, FILE)) == ""


def test_kinds_modes_and_links_count_and_what_is_not_checked_out_does_not(changing: Changing) -> None:
    def changed() -> list[str]:
        entries = index_file.parse(Path(changing.user.file("index")).read_bytes(), 20)
        return changed_files(changing.user, entries)

    assert changed() == []
    (changing.top / "b").chmod(0o755)
    (changing.top / "c").unlink()
    (changing.top / "c").symlink_to("b")
    (changing.top / "link").unlink()
    (changing.top / "link").symlink_to("b")
    (changing.top / "d").unlink()
    os.mkfifo(changing.top / "d")
    (changing.top / "dir" / "one").write_text("dir/one\n")
    assert changed() == ["b", "c", "d", "link"]
    changing.repository.git("config", "core.fileMode", "false")
    changing.repository.git("update-index", "--skip-worktree", "d")
    assert changed() == ["c", "link"]
    (changing.top / "link").unlink()
    (changing.top / "link").symlink_to("a.txt")
    (changing.top / "dir").rename(changing.top / "moved")
    (changing.top / "dir").symlink_to("moved")
    assert changed() == ["c", "dir/one", "dir/two"], "no link is followed"
    Path(changing.user.file("index")).unlink()
    assert changed_files(changing.user, []) == []


def test_a_repository_of_longer_names_is_read_as_well(tmp_path: Path) -> None:
    place = tmp_path / "repo"
    git("init", "-q", "-b", "main", "--object-format=sha256", str(place), cwd=str(tmp_path))
    (place / "a.txt").write_text("one\n")
    (place / "b.txt").write_text("two\n")
    git("add", "-A", cwd=str(place))
    git("-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-qm", "x", cwd=str(place))
    listed = git("ls-tree", "-r", "HEAD", cwd=str(place)).stdout.decode().splitlines()
    files = {line.split("\t")[1]: TreeEntry(mode="100644", blob=line.split()[2]) for line in listed}
    assert uncommitted(around(str(place)), files) == 0
    (place / "a.txt").write_text("edited\n")
    os.utime(place / "b.txt", (1, 1))
    assert uncommitted(around(str(place)), files) == 1
