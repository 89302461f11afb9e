"""Moving a branch together with its checkouts; tests/landing/test_merging.py has it by the command that does it."""

from functools import partialmethod
from pathlib import Path

import pytest

from tests.workspace.repositories import git, make
from treadle.errors import Busy, WorkspaceError
from treadle.workspace import branch_moves
from treadle.workspace.branch_moves import BranchMoved
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


def test_staged_changes_stand_in_the_way_of_a_look_and_of_a_move(moves: Moves) -> None:
    (Path(moves.repository.top) / "mine.txt").write_text("mine\n")
    git("add", "mine.txt", cwd=moves.repository.top)
    new = moves.adding("one.txt")
    with pytest.raises(WorkspaceError, match=r"changes are staged there.*mine\.txt"):
        branch_moves.look(moves.user, MAIN, moves.store, moves.old, new)
    with pytest.raises(WorkspaceError, match=r"changes are staged there.*mine\.txt"):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test")
    assert branch_moves.tip(moves.user, MAIN) == moves.old


def test_two_of_us_move_one_after_the_other(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UserRepository, "lock", partialmethod(UserRepository.lock, timeout=0))
    new = moves.adding("one.txt")
    with moves.user.lock(), pytest.raises(Busy):
        branch_moves.move(moves.user, MAIN, moves.store, moves.old, new, "test")
    assert branch_moves.tip(moves.user, MAIN) == moves.old
