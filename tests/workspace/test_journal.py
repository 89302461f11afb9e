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
from treadle.workspace.directories import DEPTH_CAP
from treadle.workspace.journal import Step

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
    """Whether a process that does this was killed when it touched a file for the `at`th time."""
    pid = os.fork()
    if pid == 0:
        touches = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal touches
            if event in TOUCHING:
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


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_it_to_be_finished_or_undone_but_never_half(tmp_path: Path) -> None:
    outcomes = set()
    apply(fill(tmp_path / "0", FILES))  # so that every module is loaded
    for at in range(1, 400):
        root = fill(tmp_path / str(at) / "root", FILES)
        if not killed(lambda root=root: apply(root), root, at):  # type: ignore[misc]
            break
        found = journal.settle(f"{root}.json")
        assert state(root) == (AFTER if found == "finished" else FILES), f"killed at {at}"
        assert journal.settle(f"{root}.json") is None and not Path(f"{root}.json").exists()
        outcomes.add(found)
    assert at > 20 and outcomes - {None} == {"finished", "undone"}


def test_a_kill_while_it_is_settled_can_be_settled_again(tmp_path: Path) -> None:
    for at in range(1, 400):
        root = fill(tmp_path / str(at) / "root", FILES)
        assert killed(lambda root=root: apply(root), root, 22)  # type: ignore[misc]
        if not killed(lambda root=root: journal.settle(f"{root}.json"), root, at):  # type: ignore[misc]
            break
        journal.settle(f"{root}.json")
        assert state(root) in (FILES, AFTER), f"killed at {at}"
    assert at > 3


def half_way(tmp_path: Path) -> Path:
    """Killed after the first file was moved into place."""
    for at in range(1, 400):
        root = fill(tmp_path / str(at) / "root", FILES)
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
    with pytest.raises(StorageError):
        journal.carry_out(f"{root}.json", str(root), {"link": partial(put, "x"), "a/b": partial(put, "y")}, [])
    assert os.readlink(root / "link") == "a"


# Against an agent that works in the same directory...


def test_a_directory_that_becomes_a_link_leads_nowhere_and_all_is_undone(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": "1", "zz/id_rsa": "tracked"})
    secret = fill(tmp_path / "home", {"id_rsa": "SECRET"})

    def exchange(place: str) -> None:
        put("new", place)
        (root / "zz").rename(root / "zz.old")
        (root / "zz").symlink_to(secret)

    writes: dict[str, Callable[[str], None]] = {
        "a": partial(put, "2"),
        "b": exchange,
        "zz/authorized_keys": partial(put, "EVIL"),
        "zz/id_rsa": partial(put, "overwritten"),
    }
    with pytest.raises(StorageError):
        journal.carry_out(f"{root}.json", str(root), writes, [])
    assert state(secret) == {"id_rsa": "SECRET"}
    assert (root / "a").read_text() == "1" and not (root / "b").exists()
    assert sorted(os.listdir(tmp_path)) == ["home", "root"]


def test_a_directory_that_becomes_a_link_after_staging_is_not_deleted_in_either(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"zz/id_rsa": "tracked", "a": "1"})
    secret = fill(tmp_path / "home", {"id_rsa": "tracked"})
    journal.stage(f"{root}.json", str(root), {"a": partial(put, "2")}, ["zz/id_rsa"])
    (root / "zz").rename(root / "zz.old")
    (root / "zz").symlink_to(secret)
    journal.settle(f"{root}.json")
    assert state(secret) == {"id_rsa": "tracked"}


def test_nothing_that_is_staged_lies_where_the_agent_could_write(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": "1"})
    journal.stage(f"{root}.json", str(root), {"a": partial(put, "2")}, [])
    assert os.listdir(root) == ["a"]
    journal.abandon(f"{root}.json")
    assert sorted(os.listdir(tmp_path)) == ["root"]


def test_a_staged_file_that_was_changed_since_is_not_put_in_place(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": "1"})
    made = journal.stage(f"{root}.json", str(root), {"a": partial(put, "2"), "b": partial(put, "2")}, [])
    Path(made.beside, "new-1").write_text("EVIL")
    assert journal.settle(f"{root}.json") == "undone"
    assert state(root) == {"a": "1"}


@pytest.mark.parametrize("path", [".git/hooks/post-checkout", "sub/.GIT/config", "../out", "a//b"])
def test_no_path_leads_out_or_to_gits_own_files(tmp_path: Path, path: str) -> None:
    root = fill(tmp_path / "root", {"a": "1"})
    with pytest.raises(StorageError, match="not a path"):
        journal.carry_out(f"{root}.json", str(root), {"a": partial(put, "2"), path: partial(put, "x")}, [])
    assert state(root) == {"a": "1"} and os.listdir(tmp_path) == ["root"]


def test_a_very_deep_path_is_written_and_undone(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": "1"})
    deep = "d/" * (DEPTH_CAP + 1) + "f"
    with pytest.raises(StorageError):
        journal.carry_out(f"{root}.json", str(root), {deep: partial(put, "x"), "a/b": partial(put, "y")}, [])
    assert os.listdir(root) == ["a"]
    journal.carry_out(f"{root}.json", str(root), {deep: partial(put, "x")}, [])
    assert (root / "d").is_dir()
    journal.carry_out(f"{root}.json", str(root), {}, [deep])
    assert os.listdir(root) == ["a"]


def test_a_name_that_is_not_utf_8_is_kept_by_its_bytes(tmp_path: Path) -> None:
    odd, plain = os.fsdecode(b"bad\xff"), Step.of("good", None, "file x")
    step = Step.of(odd, "file x", None)
    assert (plain.raw, plain.real) == ("", "good") and (step.raw, step.real) == (b"bad\xff".hex(), odd)
    step.path.encode()
    target = tmp_path / "target"
    target.mkdir()
    (target / odd).write_text("old")
    journal.carry_out(str(tmp_path / "apply.json"), str(target), {}, [odd])
    assert os.listdir(target) == [] and sorted(os.listdir(tmp_path)) == ["target"]


def test_a_file_that_cannot_be_made_leaves_nothing_staged(tmp_path: Path) -> None:
    path, target = str(tmp_path / "apply.json"), tmp_path / "target"
    target.mkdir()

    def fails(place: str) -> None:
        raise OSError(28, "No space left on device", place)

    with pytest.raises(StorageError, match="cannot write .*No space left on device"):
        journal.stage(path, str(target), {"new": fails}, [])
    assert os.listdir(tmp_path) == ["target"]
    with pytest.raises(StorageError):
        journal.stage(str(tmp_path / "none" / "apply.json"), str(target), {}, [])
