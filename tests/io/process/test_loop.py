"""Ctrl-C at any moment ends a command without a traceback of the loop's own, and secrets stay in memory."""

import asyncio
import ctypes
import inspect
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.io.process.test_reaper import in_copy
from treadle.io.process.loop import Stepping, hold_secrets, run_async


def test_the_result_is_handed_back_and_the_handler_of_before_is_set_again() -> None:
    async def work() -> int:
        return 7

    assert run_async(work()) == 7
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_between_a_look_at_a_future_and_the_setting_of_its_result_breaks_neither() -> None:
    """As the loop's own callback does when a connection stands."""
    problems: list[dict[str, Any]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: problems.append(context))
        connected = loop.create_future()

        def step() -> None:
            if not connected.done():
                signal.raise_signal(signal.SIGINT)
                connected.set_result(None)

        loop.call_soon(step)
        await connected
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert problems == []


def test_what_it_cleans_up_is_cleaned_up_and_what_it_returns_then_counts() -> None:
    async def work() -> int:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return 130
        return 0

    assert run_async(work()) == 130


def test_a_second_ctrl_c_ends_what_does_not_heed_the_first() -> None:
    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on")

    with pytest.raises(KeyboardInterrupt):
        run_async(work())


def test_work_that_cancels_itself_is_not_taken_for_an_interrupt() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(work())


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda signum, frame: None])
def test_a_handler_that_another_has_set_is_left_alone(handler: Callable[[int, object], None]) -> None:
    """Also that a shell has had its background jobs ignore Ctrl-C."""

    async def work() -> object:
        signal.raise_signal(signal.SIGINT)
        return signal.getsignal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    try:
        assert run_async(work()) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_it_runs_in_a_thread_where_no_handler_can_be_set() -> None:
    found: list[int] = []

    async def work() -> None:
        found.append(1)

    thread = threading.Thread(target=lambda: run_async(work()))
    thread.start()
    thread.join(60)
    assert found == [1]


def test_one_loop_does_several_pieces_of_work_and_is_closed_at_the_end() -> None:
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with Stepping() as stepping:
        first = stepping.run(work())
        future = first.create_future()
        future.set_result(7)
        assert stepping.run(work()) is first and stepping.run(future) == 7 and not first.is_closed()
    assert first.is_closed()


def test_ctrl_c_before_the_first_step_or_after_the_last_ends_it_at_once() -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda task: signal.raise_signal(signal.SIGINT))

    with Stepping() as stepping:
        stepping._runner.get_loop().call_soon(signal.raise_signal, signal.SIGINT)
        begun = work()
        with pytest.raises(KeyboardInterrupt):
            stepping.run(begun)
        assert inspect.getcoroutinestate(begun) == "CORO_CLOSED"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        run_async(work())


def test_what_the_second_ctrl_c_interrupts_is_still_cleaned_up() -> None:
    cleaned: list[bool] = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert cleaned == [True]


def test_its_memory_cannot_be_read_or_dumped() -> None:
    def tried() -> tuple[int, int, tuple[int, int]]:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
        hold_secrets()
        return before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    assert in_copy(tried) == (1, 0, (0, hard)), "dumpable before; then neither dumpable nor a core file"
