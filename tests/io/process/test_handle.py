"""A process and its keeper: one for all trees, begun early or with the first."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.descriptors import opened
from tests.io.process.trees import output
from tests.terminal.support import until
from treadle.errors import LocalError
from treadle.io.process import table
from treadle.io.process.tree import KeeperHandle, own
from treadle.wire.common.framing import frame


def test_one_keeper_serves_all_trees_of_a_process(mark: str) -> None:
    output(["true"])
    keeper = own.pid
    output(["true"])
    assert own.pid == keeper
    while table.descendants(keeper):
        pass  # the reapers end a moment after their trees; the test's own timeout bounds this


def test_a_keeper_that_was_begun_before_the_first_tree_serves_it(mark: str) -> None:
    own.begin()
    keeper = own.pid
    assert keeper and output(["echo", "served"]) == (b"served\n", 0)
    assert own.pid == keeper


@pytest.fixture
def keeping() -> Iterator[KeeperHandle]:
    """A connection of our own to a keeper of its own."""
    made = KeeperHandle()
    yield made
    until(lambda: made.rest(lambda: False))


def test_a_keeper_rests_when_no_tree_is_left_and_is_started_again_when_it_is_needed(keeping: KeeperHandle) -> None:
    assert keeping.pid == 0 and keeping.rest(lambda: pytest.fail("there is none yet"))
    keeping.begin()
    first = keeping.pid
    keeping.begin()
    assert keeping.pid == first and os.getsid(first) == first
    assert not keeping.rest(lambda: True) and table.look(first) is not None
    until(lambda: keeping.rest(lambda: False))
    assert keeping.pid == 0 and table.look(first) is None, "it is collected"
    keeping.begin()
    assert keeping.pid not in (0, first)


def test_a_killed_keeper_is_collected_and_replaced_by_the_next_message(keeping: KeeperHandle) -> None:
    keeping.begin()
    first = keeping.pid
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    keeping.send(frame(0), [])
    assert keeping.pid != first and table.look(first) is None
    keeping.let_go()
    second = keeping.pid
    keeping.begin()
    assert keeping.pid != second, "what was let go is not used again"
    until(lambda: table.look(second) is None or not keeping.rest(lambda: True))


def test_what_cannot_be_sent_to_a_second_keeper_either_is_an_error(keeping: KeeperHandle) -> None:
    with pytest.raises(LocalError, match="the keeper of child processes cannot be reached: .*Bad file descriptor"):
        keeping.send(frame(0), [1 << 20])


def test_a_keeper_that_cannot_be_started_is_an_error_and_leaves_nothing_open(
    keeping: KeeperHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened()
    with monkeypatch.context() as patched, pytest.raises(LocalError, match="cannot start the keeper of child"):
        patched.setattr(sys, "executable", "/no/such/python")
        keeping.begin()
    assert opened() == before and keeping.pid == 0


def test_only_the_keeper_of_a_tree_can_sweep_below_its_reaper(keeping: KeeperHandle) -> None:
    assert not keeping.sweep(0, 1), "there is none"
    keeping.begin()
    assert not keeping.sweep(keeping.pid + 1, 1) and keeping.sweep(keeping.pid, 1 << 22)
    os.kill(keeping.pid, signal.SIGKILL)
    os.waitid(os.P_PID, keeping.pid, os.WEXITED | os.WNOWAIT)
    assert not keeping.sweep(keeping.pid, 1 << 22), "it was killed as well"
