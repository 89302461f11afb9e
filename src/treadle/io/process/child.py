"""A child process and its descendants, for asyncio: start it, talk to it, wait for it, stop it; or ask it one thing.

    async with await start(["codex", "proto"], stdin="pipe") as child:
        async for message in Link(child.stdio, connection): ...

The tree runs under the keeper and is gone when the `async with` ends, however it ends. See `tree.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Literal, Unpack

import msgspec

from treadle.errors import PeerClosed
from treadle.io.process import reaper, tree
from treadle.io.streams import FdStream, Waiting
from treadle.io.tasks import end_tasks, within

log = logging.getLogger(__name__)
TAIL = 64 * 1024
REST = 20.0
"""Seconds after the last child until the keeper is ended: it takes 4 MB, and 20 to 40 ms to start again."""
COLLECTING = 1.0


class Tail:
    """The last bytes of an output that may be endless."""

    def __init__(self, limit: int = TAIL) -> None:
        self.limit = limit
        self.dropped = 0
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > 2 * self.limit:
            self._trim()

    def _trim(self) -> None:
        over = len(self._held) - self.limit
        if over > 0:
            self.dropped += over
            del self._held[:over]

    @property
    def content(self) -> bytes:
        self._trim()
        return bytes(self._held)

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


async def start(
    argv: Sequence[str],
    *,
    stdin: int | Literal["pipe"] | None = None,
    stdout: int | Literal["pipe"] | None = "pipe",
    stderr: int | Literal["pipe", "stdout", "tail"] | None = "tail",
    fds: Sequence[int] = (),
    aside: bool = False,
    **how: Unpack[tree.SpawnOptions],
) -> Child:
    """Start `argv` and wait until it runs.

    A standard stream is a descriptor of yours, `"pipe"`, or `None` for /dev/null. With `stderr="tail"` its last 64 KiB
    are kept in `Child.tail`; with `"stdout"` it goes where stdout goes. With `aside`, `argv` is a wrapper that passes
    stdin and stdout on to another program: it gets them as the two descriptors after `fds`, and /dev/null as its own.
    The rest is as in `tree.spawn`.
    """
    ours: dict[str, int] = {}
    theirs: list[int] = []

    def end_of(name: str, wanted: int | str | None) -> int | None:
        if not isinstance(wanted, str):
            return wanted
        read, write = os.pipe()
        mine, its = (write, read) if name == "stdin" else (read, write)
        ours[name] = mine
        theirs.append(its)
        return its

    child: Child | None = None
    try:
        input_, output = end_of("stdin", stdin), end_of("stdout", stdout)
        errors = output if stderr == "stdout" else end_of("stderr", stderr)
        if aside and input_ is not None and output is not None:
            fds, input_, output = (*fds, input_, output), None, None
        child = Child(tree.request(argv, stdin=input_, stdout=output, stderr=errors, fds=fds, **how))
        await child._started()
    except BaseException as error:
        for fd in ours.values():
            os.close(fd)
        if child is not None:
            try:
                if isinstance(error, asyncio.CancelledError):  # it may run by now, and must not outlive us
                    await child.stop(0 if how.get("patient") else tree.GRACE)  # a wrapper has not begun what it is for
            finally:
                child.close()
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    child._adopt(ours, keep_tail=stderr == "tail")
    log.info("started %s as process %s in %s", argv[0], child.pid, how.get("cwd") or ".")
    return child


class Child:
    """A running command. `stdio` reads its stdout and writes its stdin, where these are pipes."""

    def __init__(self, started: tree.Tree) -> None:
        self.tree = started
        self.stdio = FdStream(-1, -1)
        self.stderr = FdStream(-1, -1)
        self.tail = Tail()
        self.beside: list[Callable[[], None]] = []
        """Functions that close what else belongs to it."""
        self.exceeded: Callable[[str], str] = lambda output: ""
        """Which limit it came up to, in words, by what it printed and otherwise; empty if none."""
        self.disk_full = ""
        """That it was stopped because others filled the disk, in words."""
        self._reading_tail: asyncio.Task[None] | None = None
        self._changed = Waiting()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(started.fileno(), self._update)

    def __repr__(self) -> str:
        return repr(self.tree).replace("tree", "child", 1)

    @property
    def pid(self) -> int:
        return self.tree.pid

    @property
    def exit_code(self) -> int | None:
        return self.tree.exit_code

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            self.close()

    async def wait(self) -> int:
        """The exit code of the command, negative for a signal. What it left running is still there until `stop`."""
        while self.tree.exit_code is None and not self.tree.ended:
            await self._changed.wait()
        return self.tree.wait(0)

    async def stop(self, grace: float = tree.GRACE) -> tree.TreeEnd:
        """Ask every process of the tree to end, wait `grace` seconds, kill the rest; returns when none is left.

        What the command has written can still be read afterwards.
        """
        self.tree.ask_stop(grace)
        try:
            async with within(grace + reaper.KILL_LIMIT + tree.ANSWER_TIMEOUT):
                while not self.tree.ended:
                    await self._changed.wait()
        except TimeoutError:
            pass
        self._unwatch()
        if self.tree.report is None:
            return await asyncio.to_thread(self.tree.conclude)  # its reaper was killed or hangs, so this takes a moment
        return self.tree.conclude()

    def signal(self, signum: int, *, everyone: bool = False) -> None:
        self.tree.signal(signum, everyone=everyone)

    async def last_words(self, patience: float = 1.0) -> str:
        """The end of its stderr. Waits a little for output that is still arriving."""
        if self._reading_tail is not None:
            await asyncio.wait([self._reading_tail], timeout=patience)
        return self.tail.text

    def close(self) -> None:
        """Close our ends without waiting. The keeper ends what still runs."""
        log.info("process %s ended with exit code %s", self.tree.pid, self.tree.exit_code)
        self._unwatch()
        if self._reading_tail is not None:
            self._reading_tail.cancel()
        self.tree.close()
        self.stdio.close()
        self.stderr.close()
        while self.beside:
            self.beside.pop()()
        _rest_later(REST)

    async def _started(self) -> None:
        try:
            async with within(tree.ANSWER_TIMEOUT):
                while not self.tree.pid and not self.tree.ended:
                    await self._changed.wait()
        except TimeoutError:
            pass
        self.tree.check_started()

    def _adopt(self, ours: dict[str, int], *, keep_tail: bool) -> None:
        self.stdio = FdStream(ours.get("stdout", -1), ours.get("stdin", -1))
        self.stderr = FdStream(ours.get("stderr", -1), -1)
        if keep_tail:
            self._reading_tail = asyncio.create_task(self._read_tail())

    async def _read_tail(self) -> None:
        while data := await self.stderr.read():
            self.tail.feed(data)

    def _update(self) -> None:
        self.tree.update()
        if self.tree.ended:
            self._unwatch()
        self._changed.wake()

    def _unwatch(self) -> None:
        if self.tree.fileno() >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self.tree.fileno())


class _Resting(threading.local):
    timer: asyncio.TimerHandle | None = None


_resting = _Resting()


def _rest_later(seconds: float) -> None:
    """Each thread has a loop of its own, and a timer in it that every child's end puts off."""
    if _resting.timer is not None:
        _resting.timer.cancel()
    try:
        _resting.timer = asyncio.get_running_loop().call_later(seconds, _rest)
    except RuntimeError:
        _resting.timer = None  # the loop is over, and so are we soon


def _rest() -> None:
    if not tree.rest() and not tree.busy():
        _rest_later(COLLECTING)  # it is ending


# A program that is asked something on its stdin and answers on its stdout, such as a hook, within a time limit.

OUTPUT_CAP = 24 * 1024


class Consulted(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int | None
    """None when it took too long."""
    stdout: str = ""
    stderr: str = ""


async def consult(child: Child, message: bytes, timeout: float) -> Consulted:
    """The child's answer to the message. Afterwards nothing of it is running."""
    telling = asyncio.create_task(_tell(child, message))
    hearing = asyncio.create_task(_hear(child))
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            code = await child.wait()
    except TimeoutError:
        pass
    finally:
        # This also ends what the child left running, so that nothing holds its stdout open any more.
        await child.stop(grace=1.0)
        await end_tasks(telling)
    return Consulted(exit_code=code, stdout=await hearing, stderr=await child.last_words())


async def _tell(child: Child, message: bytes) -> None:
    try:
        await child.stdio.write(message + b"\n")
    except PeerClosed:
        pass  # it does not want to read the message
    child.stdio.close_write()


async def _hear(child: Child) -> str:
    """The beginning of its stdout; the rest is read, so that it can continue, and dropped."""
    output = b""
    while data := await child.stdio.read():
        output += data[: OUTPUT_CAP - len(output)]
    return output.decode(errors="replace")
