"""Both sides of a conflict: a helper starts from whole files, and which side a result took is measured."""

from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, make
from treadle.landing import returned
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


class Split:
    """A branch and a change that both changed a file since they parted."""

    def __init__(self, place: Path) -> None:
        self.repository: Repository = make(place / "r")
        self.base = self.repository.commit()
        self.tip = self.changed("theirs", "one of the branch\n", "b.txt", "Order: first")
        self.repository.git("checkout", "-q", self.base)
        self.change = self.changed("ours", "one of the order\n", "c.txt")
        user = UserRepository.at(self.repository.top)
        assert user is not None
        self.store = Store.make(str(place / "store"), lenders=user.object_places())

    def changed(self, word: str, text: str, new: str, *trailers: str) -> str:
        top = Path(self.repository.top)
        (top / "a.txt").write_text(text)
        (top / new).write_text("new\n")
        self.repository.git("add", "-A")
        self.repository.git("commit", "-qm", "\n\n".join([word, *trailers]))
        return self.repository.commit()

    def result(self, text: str) -> str:
        """A commit in which a helper has written this."""
        self.repository.git("checkout", "-q", self.tip)
        Path(self.repository.top, "a.txt").write_text(text)
        self.repository.git("commit", "-qam", "helped", "--allow-empty")
        return self.repository.commit()

    def read(self, commit: str) -> dict[str, bytes]:
        _, files = self.store.borrow_tree(commit)
        return {path: self.store.blobs([entry.blob])[entry.blob] for path, entry in files.items()}


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return Split(tmp_path)


def test_a_helper_starts_from_the_branchs_file_with_both_as_parents_and_no_markers(split: Split) -> None:
    begun = returned.start(split.store, split.tip, split.change)
    files = split.read(begun.commit)
    assert files["a.txt"] == b"one of the branch\n" and {"b.txt", "c.txt"} <= files.keys()
    assert not [data for data in files.values() if b"<<<<" in data]
    parents = split.store.git("rev-list", "--parents", "-1", begun.commit, lent=True).stdout.decode().split()[1:]
    assert parents == [split.tip, split.change] and begun.since == split.base and begun.landed == ("first",)
    (side,) = begun.sides
    assert (side.path, side.orders) == ("a.txt", ("first",))
    assert "+one of the branch" in side.branch and "+one of the order" in side.order


def doubted(split: Split, branch: str, order: str, result: str, also: dict[str, str | None]) -> list[returned.Doubt]:
    """What is doubted of a result for a conflict in a.txt that had `limit = 10` before; `also`: what else it writes."""
    top, git = Path(split.repository.top), split.repository.git
    git("checkout", "-q", split.base)
    commits = []
    for text, new in (("limit = 10\n", "base.txt"), (branch, "b.txt"), (order, "c.txt")):
        git("checkout", "-q", commits[0] if commits else split.base)
        commits.append(split.changed(new, text, new, *(["Order: first"] if new == "b.txt" else [])))
    base, tip, change = commits
    git("checkout", "-q", tip)
    git("checkout", change, "--", "c.txt")
    for name, written in {"a.txt": result, **also}.items():
        (top / name).unlink() if written is None else (top / name).write_text(written)
    git("add", "-A")
    git("commit", "-qm", "helped", "--allow-empty")
    return returned.doubts(split.store, tip, change, split.repository.commit())


ONE_SIDED: dict[str, tuple[str, str, str, dict[str, str | None]]] = {
    "the order's value": ("limit = 20\n", "limit = 30\n", "limit = 30\n", {}),
    "the branch's value": ("limit = 20\n", "limit = 30\n", "limit = 20\n", {}),
    "neither value": ("limit = 20\n", "limit = 30\n", "limit = 40\n", {}),
    "one of two added lines": ("limit = 10\nx = 1\n", "limit = 10\ny = 1\n", "limit = 10\ny = 1\n", {}),
    "a sign": ("limit = 10 + a\n", "limit = 10 * b\n", "limit = 10 * a * b\n", {}),
    "a value that is elsewhere too": (
        "n = 20\n\n\nlimit = 20\n",
        "n = 30\n\n\nlimit = 30\n",
        "n = 20\n\n\nlimit = 30\n",
        {},
    ),
    "an empty file": ("limit = 20\n", "limit = 30\n", "", {}),
    "no file": ("limit = 20\n", "limit = 30\n", "limit = 20\n", {"a.txt": None}),
    "another file": ("limit = 10\nx = 1\n", "limit = 10\ny = 1\n", "limit = 10\nx = 1\ny = 1\n", {"other.txt": "x\n"}),
    "the branch's other file undone": (
        "limit = 10\nx = 1\n",
        "limit = 10\ny = 1\n",
        "limit = 10\nx = 1\ny = 1\n",
        {"b.txt": None},
    ),
}


@pytest.mark.parametrize(("branch", "order", "result", "also"), ONE_SIDED.values(), ids=ONE_SIDED)
def test_a_result_that_does_not_keep_both_sides_is_doubted(
    split: Split, branch: str, order: str, result: str, also: dict[str, str | None]
) -> None:
    assert doubted(split, branch, order, result, also)


@pytest.mark.parametrize(
    ("branch", "order", "result"),
    [
        ("limit = 10\nx = 1\n", "limit = 10\ny = 1\n", "limit = 10\nx = 1\ny = 1\n"),
        ("limit = 10 + a\n", "limit = 10 + b\n", "limit = 10 + a + b\n"),
        ("limit = 20\n", "LIMIT = 10\n", "LIMIT = 20  # limit\n"),
    ],
)
def test_a_result_that_keeps_both_sides_is_not(split: Split, branch: str, order: str, result: str) -> None:
    found = doubted(split, branch, order, result, {})
    assert found == [] or "LIMIT" in order and [each.orders for each in found] == [()], found


def test_where_nothing_conflicts_there_is_nothing_to_decide(split: Split) -> None:
    begun = returned.start(split.store, split.base, split.change)
    assert begun.sides == () and split.read(begun.commit) == split.read(split.change)


def test_a_file_that_one_side_removed_or_that_is_a_submodule_is_as_on_the_branch(tmp_path: Path) -> None:
    repository = make(tmp_path / "r")
    top = Path(repository.top)
    for name in ("gone.txt", "kept.txt"):
        (top / name).write_text("one\n")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "more")
    base = repository.commit()

    def commit(word: str, edits: dict[str, str | None], module: str) -> str:
        repository.git("checkout", "-q", "--detach", base)
        for name, text in edits.items():
            (top / name).unlink() if text is None else (top / name).write_text(text)
        repository.git("add", "-A")
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{module * 40},lib")
        repository.git("commit", "-qm", f"{word}\n\nOrder: {word}")
        return repository.commit()

    tip = commit("first", {"gone.txt": None, "kept.txt": "branch\n"}, "1")
    change = commit("second", {"gone.txt": "two\n", "kept.txt": None}, "2")
    user = UserRepository.at(repository.top)
    assert user is not None
    store = Store.make(str(tmp_path / "store"), lenders=user.object_places())
    begun = returned.start(store, tip, change)
    _, files = store.borrow_tree(begun.commit)
    _, branch = store.borrow_tree(tip)
    assert files == branch and begun.landed == ("first",) and begun.tip == tip
    found = {each.path: each for each in begun.sides}
    assert {"gone.txt", "kept.txt", "lib"} == set(found) and found["gone.txt"].kind == "modify/delete"
    assert found["gone.txt"].orders == ("first",) and "-one" in found["gone.txt"].branch
    assert "+two" in found["gone.txt"].order and (found["lib"].base, found["lib"].change) == (base, change)
