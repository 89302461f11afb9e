"""A limit ends in a TimeoutError wherever it is set, and a cancellation from outside stays one; tasks end."""

import asyncio
import gc
import os

import pytest

from treadle.io.tasks import end_tasks, start_held, stretched, unless, within


async def test_what_takes_too_long_is_ended_and_what_does_not_is_left_alone() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.01):
            await asyncio.Event().wait()
    async with within(60), within(None):
        await asyncio.sleep(0)


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
