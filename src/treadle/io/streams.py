"""Byte streams with the same few methods: a child's standard streams, our own, a Unix socket; and a prompt read from
stdin.

Reading returns whatever has arrived, up to 64 KiB, and nothing is read ahead; writing returns when the system has taken
everything. So a slow reader slows the writer at the other end, and nothing piles up in between. No threads.
Children are started in `child.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import stat
import sys
from collections.abc import Callable
from typing import Literal, Protocol

from treadle.errors import ConfigError, PeerClosed, TreadleError
from treadle.io import files

# A prompt from the command line and stdin, without waiting for a stdin on which nothing comes.

PATIENCE = 1.0
"""How many seconds a pipe may stay silent before a prompt that does not need it goes ahead."""


def prompt(given: str | None, *, note: Callable[[str], None], fd: int = 0, patience: float = PATIENCE) -> str:
    """The prompt: the given one with the piped-in text added, or the piped-in text alone."""
    if given is None:
        if os.isatty(fd):
            raise ConfigError("there is no prompt", hint='give one: treadle -p "...", or pipe it in')
        text = _read(fd)
    else:
        piped = _read(fd) if _has_input(fd, patience, note) else ""
        text = f"{given}\n\n{piped}" if piped.strip() else given
    if not text.strip():
        raise ConfigError("the prompt is empty", hint='give one: treadle -p "..."')
    return text


def _has_input(fd: int, patience: float, note: Callable[[str], None]) -> bool:
    """Whether there is something to read, or the end of input."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False  # closed
    if os.isatty(fd):
        return False
    if stat.S_ISREG(mode):
        return True
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    if poller.poll(patience * 1000):
        return True
    note("stdin is open but silent, so it is left alone; redirect it from /dev/null to save this wait")
    return False


def _read(fd: int) -> str:
    parts = []
    try:
        while data := os.read(fd, 1 << 20):
            parts.append(data)
    except OSError:
        pass  # closed, or its terminal is gone: what came is all there is
    return b"".join(parts).decode(errors="replace")


CHUNK = 64 * 1024


class Stream(Protocol):
    async def read(self) -> bytes:
        """What has arrived, at least one byte; `b""` at the end, also when the other end broke off."""

    async def write(self, data: bytes) -> None:
        """Returns when everything is passed on. Raises `PeerClosed` when no one will read it. Writes do not mix."""

    async def abandoned(self) -> None:
        """Returns when no one will read our output any more, or when we close; never, if the system does not tell."""

    def close_write(self) -> None:
        """Tell the other end that no more will come, and keep reading."""

    def close(self) -> None:
        """Close both directions. A pending read returns `b""`."""


class Waiting:
    """Coroutines that wait for a change of something."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await future
        finally:
            self._futures.discard(future)

    def wake(self) -> None:
        for future in self._futures:
            if not future.done():
                future.set_result(None)


class FdStream:
    """A stream over descriptors, which it owns. -1 stands for a direction that does not exist.

    `shared` descriptors are also open in other processes, like our own stdin and stdout. Making them non-blocking would
    affect those too, so each is polled first and given no more than it is sure to take.
    """

    def __init__(self, read_fd: int, write_fd: int, *, shared: bool = False) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._step = select.PIPE_BUF if shared else CHUNK * 16
        self._turn = asyncio.Lock()
        """One writer at a time: a pipe takes long data in pieces, and those of two writers must not mix."""
        self._closing = Waiting()
        for fd in {read_fd, write_fd} - {-1}:
            if not shared:
                os.set_blocking(fd, False)

    async def read(self) -> bytes:
        # A source that never runs dry must not starve others. Pause before reading: if a pause after it were cancelled,
        # what was read would be lost.
        await asyncio.sleep(0)
        while (fd := self._read_fd) >= 0:
            try:
                if not _ready(fd, select.POLLIN):
                    await self._until_ready(fd, reading=True)
                    continue
                return os.read(fd, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # reset, or EIO from a terminal whose other side is closed
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        async with self._turn:
            view = memoryview(data)
            while view:
                if (fd := self._write_fd) < 0:
                    raise PeerClosed("the stream is closed for writing")
                try:
                    if not _ready(fd, select.POLLOUT):
                        await self._until_ready(fd, reading=False)
                        continue
                    view = view[os.write(fd, view[: self._step]) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise _unwritten(error) from error

    async def abandoned(self) -> None:
        loop = asyncio.get_running_loop()
        if (watch := _hangup(self._write_fd)) is None:
            await loop.create_future()
            return
        loop.add_reader(watch.fileno(), self._closing.wake)
        try:
            while self._write_fd >= 0 and not watch.poll(0):
                await self._closing.wait()
        finally:
            loop.remove_reader(watch.fileno())
            watch.close()

    async def _until_ready(self, fd: int, *, reading: bool) -> None:
        loop = asyncio.get_running_loop()
        add, remove = (loop.add_reader, loop.remove_reader) if reading else (loop.add_writer, loop.remove_writer)
        add(fd, self._closing.wake)
        try:
            await self._closing.wait()
        finally:
            if fd in (self._read_fd, self._write_fd):  # else it is closed, and the number may be reused
                remove(fd)

    def close_write(self) -> None:
        fd, self._write_fd = self._write_fd, -1
        if fd >= 0:
            self._let_go(fd, still_used=fd == self._read_fd)

    def close(self) -> None:
        self.close_write()
        fd, self._read_fd = self._read_fd, -1
        if fd >= 0:
            self._let_go(fd, still_used=False)

    def _let_go(self, fd: int, *, still_used: bool) -> None:
        loop = _running_loop()
        if loop is not None:
            loop.remove_writer(fd)
            if not still_used:
                loop.remove_reader(fd)
        if still_used:
            with socket.socket(fileno=os.dup(fd)) as handle:
                _quietly(lambda: handle.shutdown(socket.SHUT_WR))
        else:
            os.close(fd)
        self._closing.wake()


def _unwritten(error: OSError) -> TreadleError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return files.storage_error(error, "the output", "write")
    return PeerClosed(f"the other end no longer reads: {error.strerror}")


def _ready(fd: int, event: int) -> bool:
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(0))


def _hangup(fd: int) -> select.epoll | None:
    """Becomes readable when the other end of a pipe or socket is closed; None where the system does not tell (file).

    The event loop cannot wait for that alone: on a socket every arriving byte, and the end of input, would wake it.
    """
    try:
        watch = select.epoll()
    except AttributeError:
        return None  # macOS
    try:
        watch.register(fd, 0)
    except (OSError, ValueError):
        watch.close()
        return None
    return watch


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # closed after the loop: no one waits any more


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        pass


# Our own standard streams...


_taken = False


def stdout_is_taken() -> bool:
    """Whether `take_stdio` was called: then what is printed goes to stderr."""
    return _taken


def take_stdio(output_file: str | None = None) -> FdStream:
    """Our stdin and stdout as a stream, for a program whose stdout belongs to a protocol.

    With `output_file`, output goes there instead. After this a stray `print` goes to stderr, and no child can read our
    stdin or write to our stdout.
    """
    try:
        out = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if output_file else os.dup(1)
    except OSError as error:
        raise files.storage_error(error, str(output_file), "write") from error
    stream = FdStream(os.dup(0), out, shared=True)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    global _taken
    _taken = True
    return stream


class Printing:
    """The current `sys.stdout` or `sys.stderr` as a stream to write to."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name

    async def write(self, data: bytes) -> None:
        """Blocks. Raises `PeerClosed` when no one will read it."""
        stream = getattr(sys, self._name)
        try:
            if stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            if hasattr(stream, "buffer"):
                stream.flush()
                stream.buffer.write(data)
            else:
                stream.write(data.decode(errors="replace"))
            stream.flush()
        except OSError as error:
            raise _unwritten(error) from error
