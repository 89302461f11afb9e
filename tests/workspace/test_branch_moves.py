"""Moving a branch together with its checkouts."""

import os
import signal
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.conftest import need
from tests.io.process.trees import in_copy
from tests.workspace.repositories import git, make
from treadle.errors import Busy, WorkspaceError
from treadle.workspace import branch_moves, user_repository
from treadle.workspace.branch_moves import BranchMove, BranchMoved
from treadle.workspace.changes import TreeEntry
from treadle.workspace.checkouts import around
from treadle.workspace.store import Store, lending
from treadle.workspace.user_repository import UserRepository

MAIN = "refs/heads/main"


class Moves:
    """A repository whose `main` is checked out, and commits on its tip that each add a file."""

    def __init__(self, base: Path) -> None:
        self.repository = make(base / "repo")
        self.user: UserRepository = around(self.repository.top)
        self.store = Store.make(str(base / "store"), **lending(self.user))
        self.old = self.repository.commit()

    def adding(self, name: str) -> str:
        _, files = self.store.borrow_tree(self.old)
        blob = self.store.put("blob", b"x\n")
        tree = self.store.put_files({**files, name: TreeEntry(mode="100644", blob=blob)})
        return self.store.loose_commit(tree, [self.old])


@pytest.fixture
def moves(tmp_path: Path) -> Moves:
    return Moves(tmp_path)


def test_the_branch_and_the_files_of_its_checkout_move_together(moves: Moves) -> None:
    new = moves.adding("one.txt")
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test") == []
    assert branch_moves.tip(moves.user, MAIN) == new and branch_moves.contains(moves.user, MAIN, moves.old)
    assert (Path(moves.repository.top) / "one.txt").read_text() == "x\n"
    assert git("status", "--porcelain", cwd=moves.repository.top).stdout == b""


def test_what_another_has_landed_meanwhile_is_not_taken_for_changes_of_a_person(moves: Moves) -> None:
    """Its files are in the index, and not in the commit on which this move was built: the move says that, no look."""
    first, second = moves.adding("one.txt"), moves.adding("two.txt")
    branch_moves.look(moves.user, MAIN, moves.store, moves.old, second)
    branch_moves.move(moves.user, MAIN, moves.store, moves.old, first, "test")
    branch_moves.look(moves.user, MAIN, moves.store, moves.old, second)
    with pytest.raises(BranchMoved, match="is no longer at"):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, second, "test")


def test_what_a_person_has_under_way_stays_as_it_is_where_a_move_does_not_touch_it(moves: Moves) -> None:
    top = Path(moves.repository.top)
    (top / "staged.txt").write_text("mine\n")
    git("add", "staged.txt", cwd=str(top))
    (top / "a.txt").write_text("edited\n")
    before = git("status", "--porcelain", cwd=str(top)).stdout
    new = moves.adding("one.txt")
    branch_moves.look(moves.user, MAIN, moves.store, moves.old, new)
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test") == []
    assert git("status", "--porcelain", cwd=str(top)).stdout == before and (top / "a.txt").read_text() == "edited\n"
    assert branch_moves.tip(moves.user, MAIN) == new and (top / "one.txt").read_text() == "x\n"


def test_staged_changes_stand_in_the_way_of_a_look_and_of_a_move(moves: Moves) -> None:
    (Path(moves.repository.top) / "mine.txt").write_text("mine\n")
    git("add", "mine.txt", cwd=moves.repository.top)
    new = moves.adding("mine.txt")
    with pytest.raises(WorkspaceError, match=r"changes are staged there.*mine\.txt"):
        branch_moves.look(moves.user, MAIN, moves.store, moves.old, new)
    with pytest.raises(WorkspaceError, match=r"changes are staged there.*mine\.txt"):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test")
    assert branch_moves.tip(moves.user, MAIN) == moves.old


def test_two_of_us_move_one_after_the_other(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_repository, "TIMEOUT", 0)
    new = moves.adding("one.txt")
    with moves.user.lock(), pytest.raises(Busy):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test")
    assert branch_moves.tip(moves.user, MAIN) == moves.old


def test_changed_deleted_and_new_programs_and_links_follow_and_the_reflog_says_why(moves: Moves) -> None:
    blob = moves.store.put("blob", b"#!/bin/sh\n")
    made = {
        "a.txt": TreeEntry(mode="100644", blob=blob),
        "run": TreeEntry(mode="100755", blob=blob),
        "link": TreeEntry(mode="120000", blob=moves.store.put("blob", b"a.txt")),
    }
    new = moves.store.loose_commit(moves.store.put_files(made), [moves.old])
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "because of this") == []
    top = Path(moves.repository.top)
    assert (top / "a.txt").read_text() == "#!/bin/sh\n" and (top / "run").stat().st_mode & 0o100
    assert not (top / ".gitignore").exists() and (top / "link").readlink() == Path("a.txt")
    assert git("status", "--porcelain", cwd=moves.repository.top).stdout == b""
    assert moves.repository.git("reflog", "-1", "--format=%gs", MAIN) == "because of this\n"
    assert not branch_moves.contains(moves.user, "refs/heads/none", new) and left_over(moves) == []


def test_a_branch_that_is_not_there_or_has_no_checkout_of_its_own(moves: Moves) -> None:
    with pytest.raises(WorkspaceError, match="has no branch 'mian'") as error:
        branch_moves.tip(moves.user, "refs/heads/mian")
    assert error.value.hint == "did you mean main?"
    moves.repository.git("branch", "side")
    new = moves.adding("one.txt")
    branch_moves.look(moves.user, "refs/heads/side", moves.store, moves.old, new)
    assert branch_moves.move(moves.user, "refs/heads/side", moves.store, moves.old, new, "test") == []
    assert moves.repository.commit("side") == new and moves.repository.commit() == moves.old
    assert not (Path(moves.repository.top) / "one.txt").exists()


def left_over(moves: Moves) -> list[str]:
    """What is kept of moves that are under way."""
    return sorted(os.listdir(branch_moves._place(moves.user.common)))


def test_a_file_that_is_not_checked_out_stays_away(moves: Moves) -> None:
    moves.repository.git("update-index", "--skip-worktree", "a.txt")
    file = Path(moves.repository.top, "a.txt")
    file.unlink()
    _, files = moves.store.borrow_tree(moves.old)
    blob = moves.store.put("blob", b"two\n")
    tree = moves.store.put_files({**files, "a.txt": TreeEntry(mode="100644", blob=blob)})
    new = moves.store.loose_commit(tree, [moves.old])
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test") == []
    assert not file.exists() and moves.repository.git("ls-files", "-t", "a.txt") == "S a.txt\n"
    assert git("status", "--porcelain", cwd=moves.repository.top).stdout == b""


def test_a_branch_whose_checkout_has_no_index_yet_gets_one(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo", commit=False)
    for name in ("a.txt", ".gitignore"):
        Path(repository.top, name).unlink()
    tree = repository.git("mktree").strip()
    old = repository.git("commit-tree", tree, "-m", "empty").strip()
    repository.git("update-ref", MAIN, old)
    user = around(repository.top)
    store = Store.make(str(tmp_path / "store"), **lending(user))
    blob = store.put("blob", b"x\n")
    new = store.loose_commit(store.put_files({"one.txt": TreeEntry(mode="100644", blob=blob)}), [old])
    assert branch_moves.move(user, MAIN, store, old, new, "test") == []
    assert Path(repository.top, "one.txt").read_text() == "x\n"
    assert git("status", "--porcelain", cwd=repository.top).stdout == b""


def test_a_git_command_at_work_is_waited_for_and_its_lock_is_left_alone(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_moves, "LOCK_SECONDS", 0.1)
    lock = Path(moves.repository.top, ".git", "index.lock")
    lock.write_text("theirs")
    new = moves.adding("one.txt")
    with pytest.raises(Busy, match="another git command is running in") as error:
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test")
    assert error.value.hint == f"if there is none, remove {lock}"
    assert lock.read_text() == "theirs" and moves.repository.commit() == moves.old and left_over(moves) == []
    lock.unlink()
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test") == []


def test_a_branch_that_git_does_not_move_leaves_everything_as_it_was(moves: Moves) -> None:
    lock = Path(moves.repository.top, ".git", "refs", "heads", "main.lock")
    lock.touch()
    with pytest.raises(BranchMoved, match=f"{MAIN} could not be moved from {moves.old[:12]}: .*main.lock"):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, moves.adding("one.txt"), "test")
    lock.unlink()
    assert sorted(os.listdir(moves.repository.top)) == [".git", ".gitignore", "a.txt"] and left_over(moves) == []
    assert not Path(moves.repository.top, ".git", "index.lock").exists()
    assert git("status", "--porcelain", cwd=moves.repository.top).stdout == b""


def begin(moves: Moves, monkeypatch: pytest.MonkeyPatch, *, moved: bool) -> Path:
    """A move that was killed just after its branch moved, or before: by the git that it runs. Returns its record."""
    program, real, new = Path(moves.repository.top).parent / "bin" / "git", need("git"), moves.adding("one.txt")
    program.parent.mkdir(exist_ok=True)
    moves_it = f'{real} "$@";' if moved else ""
    ends_us = f'case " $* " in *" update-ref -m "*) {moves_it} kill -9 $PPID; exit;; esac'
    program.write_text(f'#!/bin/sh\n{ends_us}\nexec {real} "$@"\n')
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        move = partial(branch_moves.move, moves.user, MAIN, moves.store, moves.old, new, "test")
        assert in_copy(move) == -signal.SIGKILL
    assert Path(moves.repository.top, ".git", "index.lock").exists()
    (name,) = (name for name in left_over(moves) if name.endswith(".json"))
    return Path(branch_moves._place(moves.user.common), name)


@pytest.mark.parametrize("moved", [True, False])
def test_what_a_killed_process_left_under_way_is_finished_or_forgotten_as_the_branch_says(
    moves: Moves, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    begin(moves, monkeypatch, moved=moved)
    branch_moves.recover(moves.user)
    assert left_over(moves) == [] and not Path(moves.repository.top, ".git", "index.lock").exists()
    assert Path(moves.repository.top, "one.txt").exists() is moved
    assert git("status", "--porcelain", cwd=moves.repository.top).stdout == b""
    assert (moves.repository.commit() != moves.old) is moved


def test_the_next_move_settles_first_what_was_left_under_way(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(moves, monkeypatch, moved=False)
    assert branch_moves.move(moves.user, MAIN, moves.store, moves.old, moves.adding("two.txt"), "test") == []
    assert sorted(os.listdir(moves.repository.top)) == [".git", ".gitignore", "a.txt", "two.txt"]


def test_a_checkout_in_which_someone_wrote_meanwhile_is_named_and_keeps_what_they_wrote(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begin(moves, monkeypatch, moved=True)
    Path(moves.repository.top, "one.txt").write_text("a person's\n")
    record = msgspec.json.decode(path.read_bytes(), type=BranchMove)
    assert branch_moves._settle(str(path), record) == (True, [moves.repository.top])
    assert Path(moves.repository.top, "one.txt").read_text() == "a person's\n"


def test_a_lock_that_is_not_ours_any_more_is_not_touched(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    for moved in (False, True):
        begin(moves, monkeypatch, moved=moved)
        lock = Path(moves.repository.top, ".git", "index.lock")
        lock.write_text("theirs")
        branch_moves.recover(moves.user)
        assert lock.read_text() == "theirs" and left_over(moves) == []
        lock.unlink()
