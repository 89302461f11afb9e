"""A detached program outlives its starter, and nothing outlives the detached program."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.descriptors import opened
from tests.io.process.hostile import SELF, await_none_left, left
from tests.terminal.support import until
from treadle.errors import LocalError, NotFound
from treadle.io.process import table, tree
from treadle.io.process.registry import KeeperTree, keeper_trees
from treadle.io.process.tree import detach

STARTER = """
import json, sys
from treadle.io.process.tree import detach
print(detach(json.loads(sys.argv[1]), cwd=sys.argv[2], ready=True))
"""


def hostile(*modes: str) -> KeeperTree:
    """A detached hostile tree that is set up, as `treadle ps` lists it."""
    pid = detach([sys.executable, "-I", "-S", SELF, *modes], cwd="/", ready=True)
    [kept] = [kept for kept in keeper_trees() if kept.pid == pid]
    return kept


def test_it_outlives_its_starter_in_its_own_session_and_directory(tmp_path: Path, mark: str) -> None:
    script = '["sh", "-c", "pwd >there; ps -o sid= -p $$ >>there; echo ready; exec sleep 100"]'
    pid = int(subprocess.check_output([sys.executable, "-c", STARTER, script, str(tmp_path)]))
    found = table.look(pid)
    assert found is not None and (tmp_path / "there").read_text().split() == [str(tmp_path), str(pid)]
    [kept] = keeper_trees()
    assert (kept.pid, kept.owner, found.parent) == (pid, kept.keeper, kept.reaper)
    os.kill(kept.reaper, signal.SIGTERM)
    assert await_none_left(mark) == []


@pytest.mark.parametrize("who", ["keeper", "reaper"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_its_keeper_or_its_reaper_ends_all_of_it(who: str, signum: int, mark: str) -> None:
    kept = hostile("daemon", "deaf", "session")
    os.kill(getattr(kept, who), signum)
    assert await_none_left(mark) == []


def test_what_it_left_running_ends_when_it_exits_and_so_does_its_keeper_which_is_no_zombie_of_ours(mark: str) -> None:
    others = {each.pid for each in table.processes()}  # left by earlier tests: not counted
    script = "sleep 100 & setsid sleep 100 & echo ready; exec sleep 100"  # they listen, so no grace is waited for
    pid = detach(["sh", "-c", script], cwd="/", ready=True)
    [kept] = [each for each in keeper_trees() if each.pid == pid]
    assert len(left(mark)) > 1
    os.kill(pid, signal.SIGKILL)
    assert await_none_left(mark) == []
    until(lambda: table.look(kept.keeper) is None, "the keeper to end")
    ours = [each for each in table.processes() if each.parent == os.getpid() and each.pid not in others]
    assert [each for each in ours if each.state == "Z"] == []


def test_one_that_ends_before_it_is_at_work_says_why_in_its_log(tmp_path: Path, mark: str) -> None:
    log = str(tmp_path / "log")
    with pytest.raises(LocalError, match="sh ended before it was at work: the loom is broken"):
        detach(["sh", "-c", "echo treadle: the loom is broken >&2"], cwd="/", log=log, ready=True)
    with pytest.raises(LocalError, match="it left no word"):
        detach(["true"], cwd="/", ready=True)
    assert Path(log).read_text() == "treadle: the loom is broken\n"
    assert Path(log).stat().st_mode & 0o777 == 0o600


def test_one_that_is_not_there_is_named_and_leaves_nothing_open(mark: str) -> None:
    before = opened()
    with pytest.raises(NotFound, match="no-such-program"):
        detach(["no-such-program"], cwd="/")
    with pytest.raises(NotFound, match="working directory"):
        detach(["true"], cwd="/no/such/place")
    assert opened() - before == set()


def test_a_program_without_a_keeper_leads_a_session_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    script = "readlink /proc/self/fd/0; pwd; ps -o sid= -p $$ | tr -d ' '; echo wrong >&2; echo end"
    pid = tree.daemon(["/bin/sh", "-c", script], cwd=str(tmp_path), log=str(log))
    until(lambda: log.read_text().endswith("end\n"))
    assert log.read_text().splitlines() == ["before", "/dev/null", str(tmp_path), str(pid), "wrong", "end"]


def test_the_last_word_of_a_log_is_its_last_line_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tree._last_line(None) == "" and tree._last_line(str(log)) == ""
    for text, word in (
        ("one\n\n  \n", "one"),
        ("one\ntreadle: no\xff", "no\u00ff"),
        ("\n", ""),
        ("x" * 600, "x" * 500),
    ):
        log.write_text(text)
        assert tree._last_line(str(log)) == word


def test_who_is_ready_says_so_and_then_writes_nowhere() -> None:
    read, write = os.pipe()
    kept = os.dup(1)
    try:
        os.dup2(write, 1)
        os.close(write)
        tree.say_ready()
        os.write(1, b"lost")
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"\n"
