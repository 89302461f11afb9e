"""Whether a program runs at all, with real processes."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.terminal.support import until
from tests.waiting import stop
from treadle.io.process import table
from treadle.terminal.state import Pulse

pytestmark = pytest.mark.skipif(not table.HAS_PROC, reason="without /proc nothing can be known")


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "100"]) as process:
        until(lambda: (found := table.look(process.pid)) and found.name == "sleep" and found.state == "S")
        yield process.pid
        process.kill()


def of(pid: int) -> Pulse:
    return Pulse(lambda: [found for found in (table.look(pid),) if found])


def test_the_time_in_which_it_is_stopped_is_neither_sleep_nor_its_own(sleeper: int) -> None:
    pulse = of(sleeper)
    pulse.take(1000)
    stop(sleeper)
    pulse.take(2000)
    assert pulse.stopped and pulse.asleep(2500) == 0
    pulse.take(3000)
    os.kill(sleeper, signal.SIGCONT)
    until(lambda: (found := table.look(sleeper)) and found.state == "S")
    pulse.take(4000)
    assert not pulse.stopped and pulse.stopped_ms == 2000
    assert pulse.asleep(4100) == 100


def test_where_nothing_can_be_known_nothing_is_claimed() -> None:
    pulse = Pulse()
    pulse.take(0)
    assert pulse.asleep(1000) is None
    gone = Pulse(lambda: [])
    gone.take(0)
    assert gone.asleep(1000) is None


def seen(*looks: list[table.Process]) -> Pulse:
    found = iter(looks)
    return Pulse(lambda: next(found))


def process(state: str, cpu: float, pid: int = 7) -> table.Process:
    return table.Process(pid, 1, 0, state, 0, "x", cpu)


def test_what_used_a_processor_between_two_looks_was_not_asleep() -> None:
    for used, slept in ((0.0, 1500), (0.15, 1500), (0.18, 0)):
        pulse = seen([process("S", 9.0)], [process("S", 9.0 + used)])
        pulse.take(1000)
        pulse.take(2000)
        assert pulse.asleep(2500) == slept, used
    pulse = seen([process("S", 0.0)], [process("S", 0.02)])
    pulse.take(1000)
    pulse.take(1000)
    assert pulse.asleep(1500) == 500, "two steps of the kernel's clock say nothing"


def test_all_that_the_processes_used_counts_and_not_what_new_ones_used_before() -> None:
    pulse = seen([process("S", 1.0), process("S", 1.0, 8)], [process("S", 1.1), process("S", 1.1, 8)])
    pulse.take(0)
    pulse.take(1000)
    assert pulse.asleep(1000) == 0
    pulse = seen([process("S", 1.0)], [process("S", 0.5), process("S", 50.0, 8)])
    pulse.take(0)
    pulse.take(1000)
    assert pulse.asleep(1000) == 1000


@pytest.mark.parametrize(("state", "stopped"), [("R", False), ("D", False), ("T", True), ("t", True)])
def test_one_that_is_awake_or_stopped_among_sleepers_is_enough(state: str, stopped: bool) -> None:
    look = [process("S", 1.0), process(state, 1.0, 8)]
    pulse = seen(look, look)
    pulse.take(0)
    pulse.take(500)
    assert (pulse.asleep(1000), pulse.stopped) == (0, stopped)
    assert pulse.stopped_ms == (500 if stopped else 0)
