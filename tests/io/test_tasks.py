"""Work in threads: bounded in time, and told to stop."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable

import pytest

from treadle.errors import Cancelled
from treadle.io import tasks
from treadle.io.process.programs import run_program
from treadle.io.tasks import end_tasks, looked, start_held, stretched, unless, within


async def test_what_takes_too_long_is_ended_and_what_does_not_is_left_alone() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.01):
            await asyncio.Event().wait()
    async with within(60), within(None):
        await asyncio.sleep(0)


async def test_a_check_is_called_if_the_one_who_wants_it_is_cancelled_before_it_is_there() -> None:
    begun, go, called = threading.Event(), threading.Event(), threading.Event()

    def watching() -> Callable[[], None]:
        begun.set()
        assert go.wait(60)
        return called.set

    task = asyncio.create_task(looked(watching))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert called.is_set()


class OldTimeout(asyncio.Timeout):
    """As in Python 3.11.0: cancellations from before count as its own."""

    async def __aenter__(self) -> "OldTimeout":
        await super().__aenter__()
        self._cancelling = 0
        return self


@pytest.fixture(params=["this Python", "3.11.0"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def timeout(seconds: float) -> OldTimeout:
        return OldTimeout(asyncio.get_running_loop().time() + seconds)

    if request.param == "3.11.0":
        monkeypatch.setattr(asyncio, "timeout", timeout)


async def test_it_also_ends_in_time_while_its_task_is_being_cancelled(python: None) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                async with within(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                ended.append("in time")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["in time"]


async def test_being_cancelled_inside_of_it_is_no_timeout(python: None) -> None:
    async def work() -> None:
        async with within(60):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_cancelled_from_outside_after_the_time_was_up_stays_cancelled(python: None) -> None:
    async def work() -> None:
        async with within(0.01):
            try:
                await asyncio.Event().wait()
            finally:
                task.cancel()

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1.0, 1), (2.5, 2.5), (90.0, 4)])
def test_a_limit_is_longer_where_the_machine_has_more_to_do_than_cores(
    load: float, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load * (os.cpu_count() or 1), 0.0, 0.0))
    assert stretched(60) == pytest.approx(60 * times)


async def test_a_task_is_held_until_it_is_done() -> None:
    held: set[asyncio.Task[int]] = set()
    go = asyncio.Event()

    async def work() -> int:
        await go.wait()
        return 7

    task = start_held(held, work(), name="seven")
    gc.collect()
    assert held == {task} and task.get_name() == "seven"
    go.set()
    assert await task == 7
    await asyncio.sleep(0)
    assert held == set()


async def test_tasks_are_cancelled_and_have_ended_whatever_they_end_with() -> None:
    seen: list[str] = []

    async def clean(name: str, error: Exception | None = None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append(name)
            if error is not None:
                raise error

    held: set[asyncio.Task[None]] = set()
    for each in (clean("one"), clean("two", ValueError("while it ended"))):
        start_held(held, each)
    await asyncio.sleep(0)
    await end_tasks(*held, None)
    assert sorted(seen) == ["one", "two"] and held == set()
    await end_tasks(None)


async def test_work_is_done_unless_the_other_is_done_first() -> None:
    go, ended = asyncio.Event(), asyncio.Event()

    async def work() -> int:
        try:
            await go.wait()
            return 7
        finally:
            ended.set()

    async def fail() -> None:
        raise ValueError("no")

    assert await unless(asyncio.sleep(0), work()) is None and ended.is_set()
    go.set()
    assert await unless(asyncio.Event().wait(), work()) == 7
    with pytest.raises(ValueError, match="no"):
        await unless(asyncio.Event().wait(), fail())


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
