"""The list of process trees is right: it shows what runs, and notes about dead ones are removed."""

import os
import select
import signal
from pathlib import Path

from tests.io.process.trees import hostile, owner
from tests.terminal.support import until
from treadle.io import paths
from treadle.io.process import table, tree
from treadle.io.process.handle import own
from treadle.io.process.registry import keeper_trees


def notes() -> Path:
    return Path(paths.private_dir(os.path.join(paths.state_dir(), "keepers")))


def test_a_tree_is_listed_while_it_runs_and_not_after(mark: str) -> None:
    first, second = hostile("bomb"), tree.spawn(["sleep", "100"])
    listed = {kept.pid: kept for kept in keeper_trees()}
    assert set(listed) == {first.pid, second.pid}
    kept = listed[second.pid]
    assert (kept.command, kept.owner, kept.keeper, kept.reaper) == (
        ["sleep", "100"],
        os.getpid(),
        own.pid,
        second.reaper,
    )
    assert kept.running and 0 <= kept.age < 60
    assert len(listed[first.pid].processes) == 51 and listed[first.pid].rss > 0
    first.stop(0)
    second.stop()
    assert keeper_trees() == [] and os.listdir(notes()) == []


def test_a_command_that_ended_but_left_others_is_listed_as_not_running(mark: str) -> None:
    started = hostile("daemon")
    until(lambda: len(started.processes()) == 2, "the daemon's parent to be gone")
    started.signal(signal.SIGKILL)
    started.wait(60)
    (kept,) = keeper_trees()
    assert not kept.running and len(kept.processes) == 1
    started.stop(0)


def test_the_trees_of_another_process_are_listed_until_it_is_killed(mark: str) -> None:
    process, keeper = owner("daemon")
    (kept,) = keeper_trees()
    assert (kept.owner, kept.keeper) == (process.pid, keeper)
    handle = os.pidfd_open(kept.reaper)
    process.kill()
    process.communicate()
    assert select.select([handle], [], [], 60)[0]
    os.close(handle)
    assert keeper_trees() == []


def test_the_note_of_a_reaper_that_is_gone_is_removed(mark: str) -> None:
    started = tree.spawn(["sleep", "100"])
    note = notes() / str(started.reaper)
    text = note.read_bytes()
    handle = os.pidfd_open(started.reaper)
    started.stop()
    select.select([handle], [], [], 60)  # the reaper itself ends a moment after its tree
    os.close(handle)
    mine = notes() / str(os.getpid())
    for stale in (note, mine):  # a free pid, and one that another process has now
        stale.write_bytes(text)
    assert keeper_trees() == []
    assert os.listdir(notes()) == []


def test_notes_that_are_half_written_or_of_a_newer_version_are_left_alone(mark: str) -> None:
    for name, text in (("1", b""), ("2", b"2\0newer"), ("readme", b"x")):
        (notes() / name).write_bytes(text)
    assert keeper_trees() == []
    assert sorted(os.listdir(notes())) == ["1", "2", "readme"]


def test_where_notes_cannot_be_written_a_tree_runs_all_the_same(mark: str) -> None:
    Path(paths.state_dir()).mkdir()
    (Path(paths.state_dir()) / "keepers").write_text("in the way")
    with tree.spawn(["sleep", "100"]) as started:
        assert table.look(started.pid)


def test_without_a_state_directory_nothing_is_kept() -> None:
    assert keeper_trees() == []
