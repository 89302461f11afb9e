"""A thread that was told to stop stops, and so does the program that it runs."""

import asyncio
import threading

import pytest

from treadle.errors import Cancelled, TimedOut
from treadle.io import tasks
from treadle.io.process.programs import run_program


def test_nobody_is_stopped_who_was_not_told() -> None:
    assert not tasks.can_be_stopped()
    tasks.check()
    word = threading.Event()
    with tasks.heeding(word):
        assert tasks.can_be_stopped()
        tasks.check()
        word.set()
        with pytest.raises(Cancelled):
            tasks.check()
    tasks.check()


async def test_the_word_reaches_a_thread_and_ends_the_program_that_it_waits_for() -> None:
    word = threading.Event()
    with tasks.heeding(word):
        work = asyncio.create_task(asyncio.to_thread(run_program, ["sleep", "3600"], timeout=3600))
    await asyncio.sleep(0)
    word.set()
    async with asyncio.timeout(60):
        with pytest.raises(Cancelled):
            await work


def test_a_program_says_the_same_to_whoever_may_be_told() -> None:
    words = b"x" * 300_000
    with tasks.heeding(threading.Event()):
        assert run_program(["sh", "-c", "sleep 0.3; cat; exit 3"], stdin=words).stdout == words
        with pytest.raises(TimedOut):
            run_program(["sleep", "60"], timeout=0.2)
    assert run_program(["cat"], stdin=words).stdout == words


async def test_what_is_done_together_has_one_limit_of_time() -> None:
    with tasks.limited(0.0):
        assert tasks.at_most(60.0) == 0.0
        with pytest.raises(TimedOut, match="sleep 3600 did not end within 0 s"):
            await asyncio.to_thread(run_program, ["sleep", "3600"])
        with tasks.limited(None):
            assert (await asyncio.to_thread(run_program, ["true"])).code == 0
    assert tasks.at_most(60.0) == 60.0
    with tasks.limited(3600.0):
        assert tasks.at_most(60.0) == 60.0


def test_a_limit_is_what_is_left_of_it_and_ends_with_its_block() -> None:
    word, other = threading.Event(), threading.Event()
    asked = tasks.stop_requested()
    with tasks.heeding(word):
        assert not tasks.stop_requested()() and not asked()
        with tasks.heeding(other):
            word.set()
            tasks.check()
        assert tasks.stop_requested()() and not asked()
        with pytest.raises(Cancelled, match="it was stopped"):
            tasks.check()
    assert not tasks.can_be_stopped()
    with tasks.limited(10.0):
        assert 9.0 < tasks.at_most(60.0) <= 10.0 and tasks.at_most(1.0) == 1.0
        with tasks.limited(None):
            assert tasks.at_most(60.0) == 60.0
        assert tasks.at_most(60.0) <= 10.0
    with pytest.raises(ZeroDivisionError), tasks.limited(-5.0), tasks.heeding(word):
        assert tasks.at_most(60.0) == 0.0
        raise ZeroDivisionError
    assert tasks.at_most(60.0) == 60.0 and not tasks.can_be_stopped()
