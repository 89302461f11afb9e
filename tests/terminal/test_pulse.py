"""Whether a program runs at all, with real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.terminal.support import until
from tests.waiting import stop
from treadle.io.process import table
from treadle.terminal.pulse import Pulse

pytestmark = pytest.mark.skipif(not table.HAS_PROC, reason="without /proc nothing can be known")


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "100"]) as process:
        until(lambda: (found := table.look(process.pid)) and found.name == "sleep" and found.state == "S")
        yield process.pid
        process.kill()


def of(pid: int) -> Pulse:
    return Pulse(lambda: [found for found in (table.look(pid),) if found])


def test_what_sleeps_has_slept_since_the_first_look(sleeper: int) -> None:
    pulse = of(sleeper)
    pulse.take(1000)
    pulse.take(1400)
    assert pulse.asleep(1500) == 500 and not pulse.stopped


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


def test_what_computes_does_not_sleep_even_if_it_was_asleep_when_it_was_looked_at() -> None:
    with subprocess.Popen([sys.executable, "-ISc", "while True: pass"]) as process:
        used = table.look(process.pid)
        assert used
        pulse = of(process.pid)
        pulse.take(0)
        until(lambda: (found := table.look(process.pid)) and found.cpu > used.cpu + 0.2)
        pulse.take(300)
        assert pulse.asleep(300) == 0
        process.kill()


def test_where_nothing_can_be_known_nothing_is_claimed() -> None:
    pulse = Pulse()
    pulse.take(0)
    assert pulse.asleep(1000) is None
    gone = Pulse(lambda: [])
    gone.take(0)
    assert gone.asleep(1000) is None
