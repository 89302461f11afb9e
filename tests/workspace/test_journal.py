"""Many files changed as one step, whichever process is killed at whatever moment."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from treadle.errors import StorageError
from treadle.workspace import journal

FILES = {"a": "a1", "b": "b1", "sub/c": "c1", "gone/deep/d": "d1", "was/file": "f1"}
AFTER = {"a": "a2", "b": "b1", "sub/c": "c2", "new/deep/e": "e2", "was": "now a file"}
TOUCHING = ("os.rename", "os.remove", "os.mkdir", "os.link", "os.rmdir", "open")


def fill(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def state(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def put(text: str, place: str) -> None:
    Path(place).write_text(text)


def apply(root: Path) -> None:
    writes: dict[str, Callable[[str], None]] = {
        name: partial(put, text) for name, text in AFTER.items() if FILES.get(name) != text
    }
    deletes = [name for name in FILES if name not in AFTER]
    journal.carry_out(f"{root}.json", str(root), writes, deletes)


def killed(work: Callable[[], object], root: Path, at: int) -> bool:
    """Whether a process that does this was killed when it touched the directory or the journal for the `at`th time."""
    pid = os.fork()
    if pid == 0:
        touches = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal touches
            if event in TOUCHING and str(root) in str(arguments[0]):
                touches += 1
                if touches == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_all_of_it_is_done(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", FILES)
    apply(root)
    assert state(root) == AFTER and os.listdir(tmp_path) == ["root"]
    assert not (root / "gone").exists()


def test_a_kill_at_any_moment_leaves_it_to_be_finished_or_undone_but_never_half(tmp_path: Path) -> None:
    outcomes = set()
    for at in range(1, 200):
        root = fill(tmp_path / str(at), FILES)
        if not killed(lambda root=root: apply(root), root, at):  # type: ignore[misc]
            break
        found = journal.settle(f"{root}.json")
        assert state(root) == (AFTER if found == "finished" else FILES), f"killed at {at}"
        assert journal.settle(f"{root}.json") is None and not Path(f"{root}.json").exists()
        outcomes.add(found)
    assert at > 20 and outcomes == {"finished", "undone"}


def test_a_kill_while_it_is_settled_can_be_settled_again(tmp_path: Path) -> None:
    for at in range(1, 200):
        root = fill(tmp_path / str(at), FILES)
        assert killed(lambda root=root: apply(root), root, 22)  # type: ignore[misc]
        if not killed(lambda root=root: journal.settle(f"{root}.json"), root, at):  # type: ignore[misc]
            break
        journal.settle(f"{root}.json")
        assert state(root) in (FILES, AFTER), f"killed at {at}"
    assert at > 3


def half_way(tmp_path: Path) -> Path:
    """Killed after the first file was moved into place."""
    for at in range(1, 200):
        root = fill(tmp_path / str(at), FILES)
        assert killed(lambda root=root: apply(root), root, at)  # type: ignore[misc]
        if (root / "a").read_text() == "a2":
            return root
    raise AssertionError


def test_what_a_person_has_changed_since_is_theirs_and_the_rest_is_undone(tmp_path: Path) -> None:
    root = half_way(tmp_path)
    (root / "sub" / "c").write_text("mine")
    assert journal.settle(f"{root}.json") == "undone"
    assert state(root) == {**FILES, "sub/c": "mine"}


def test_what_cannot_be_put_in_its_place_undoes_the_rest(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", FILES)
    (root / "new").write_text("a file where a directory is needed")
    with pytest.raises(StorageError):
        apply(root)
    assert state(root) == {**FILES, "new": "a file where a directory is needed"}
    assert not Path(f"{root}.json").exists()


def test_a_link_is_kept_as_a_link(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": "1"})
    (root / "link").symlink_to("a")
    before = journal.fingerprint(str(root / "link"))
    with pytest.raises(StorageError):
        journal.carry_out(f"{root}.json", str(root), {"link": partial(put, "x"), "a/b": partial(put, "y")}, [])
    assert journal.fingerprint(str(root / "link")) == before and os.readlink(root / "link") == "a"


def test_a_journal_of_a_newer_version_or_a_torn_one_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "apply.json"
    place.write_text('{"format":99,"target":"/","beside":"/x","state":"committed"}')
    with pytest.raises(StorageError, match="newer"):
        journal.settle(str(place))
    place.write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        journal.settle(str(place))
    assert place.exists()
