"""How a process of ours runs and ends: quickly, by signals, with nothing lost, and with its secrets kept."""

import asyncio
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.io.process.trees import SOURCES, in_copy
from treadle.io.process import lifetime
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.io.process.table import HAS_PROC

LEAVE = "from treadle.io.process import lifetime; import sys\n"


def run(code: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", LEAVE + code], capture_output=True, text=True, timeout=60, **more
    )


def test_what_is_buffered_is_written_and_the_code_is_the_one_given() -> None:
    done = run("print('out', end=''); sys.stderr.write('err'); lifetime.leave(7)")
    assert (done.stdout, done.stderr, done.returncode) == ("out", "err", 7)


def test_threads_that_are_not_daemons_finish_first() -> None:
    work = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('done'))).start()\n"
    work += "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    assert run(work + "lifetime.leave(0)").stdout == "done\n"


def test_a_log_is_written_to_its_end(tmp_path: Path) -> None:
    log = (
        "import logging.handlers as h, logging\n"
        f"m = h.MemoryHandler(1000, target=logging.FileHandler({str(tmp_path / 'log')!r}))\n"
        "logging.getLogger().addHandler(m); logging.getLogger().warning('last words')\n"
    )
    run(log + "lifetime.leave(0)")
    assert (tmp_path / "log").read_text() == "last words\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_failure_stays_what_it_was_and_complaints_that_nobody_gets_change_nothing() -> None:
    def left(stream: str, code: int, closed: bool = False) -> object:
        with open("/dev/full", "w") as full:
            setattr(sys, stream, full)
            full.close() if closed else full.write("x")
            lifetime.leave(code)

    assert in_copy(lambda: left("stdout", 0)) == 120 and in_copy(lambda: left("stdout", 3)) == 3
    assert in_copy(lambda: left("stderr", 0)) == 0 and in_copy(lambda: left("stdout", 0, closed=True)) == 120
    assert in_copy(lambda: lifetime.leave(-1)) == 255


@pytest.mark.parametrize(("value", "code", "words"), [("", 0, ""), ("3", 3, ""), ("'why'", 1, "why\n")])
def test_it_leaves_as_sys_exit_would(value: str, code: int, words: str) -> None:
    done = run(f"try: sys.exit({value})\nexcept SystemExit as ended: lifetime.leave_by(ended)")
    assert (done.returncode, done.stderr) == (code, words)


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


async def test_a_signal_is_heard_until_it_is_no_longer_listened_for_unless_it_was_ignored_before() -> None:
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        unheard = on_signals(received.put_nowait)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert [await received.get(), await received.get()] == [signal.SIGTERM, signal.SIGINT] and received.empty()
        unheard()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


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


def printed(code: str) -> list[str]:
    program = "import os, signal, subprocess, sys\nfrom treadle.io.process import signals\n" + code
    env = {**os.environ, "PYTHONPATH": SOURCES}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
    ).stdout.split()


def test_each_signal_that_arrives_is_a_byte_with_its_number() -> None:
    code = """
fd = signals.pipe((signal.SIGTERM, signal.SIGUSR1))
print(list(signals.drain(fd)))
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGTERM)
print(*signals.drain(fd))
"""
    assert printed(code) == ["[]", str(int(signal.SIGUSR1)), str(int(signal.SIGTERM))]


def test_held_signals_wait_and_are_delivered_when_released() -> None:
    code = """
fd = signals.pipe((signal.SIGTERM,))
signals.hold()
os.kill(os.getpid(), signal.SIGTERM)
print(len(signals.drain(fd)))
signals.release()
print(*signals.drain(fd))
"""
    assert printed(code) == ["0", str(int(signal.SIGTERM))]


def test_after_a_reset_a_program_finds_signals_as_it_expects_them() -> None:
    code = """
signals.pipe((signal.SIGTERM,))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signals.hold()
signals.reset()
print(*(signal.getsignal(each) == signal.SIG_DFL for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)))
print(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())), signal.set_wakeup_fd(-1))
"""
    assert printed(code) == ["True", "True", "True", "0", "-1"]


CODE = """
from treadle.io.process.signals import set_title
print(set_title({!r}))
print(open("/proc/self/cmdline").read())
"""


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
@pytest.mark.parametrize("text", ["treadle: terminal a1", "", "long " * 2000])
def test_ps_shows_the_title_as_far_as_it_fits(text: str) -> None:
    command = [sys.executable, "-c", CODE.format(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    said, shown = done.stdout.rstrip("\n").split("\n")
    room = sum(len(word) + 1 for word in command) - 1
    assert said == "True" and shown.rstrip("\0") == text[:room].rstrip("\0")
