"""Reads lines that a person types, with editing and history, while the event loop keeps running."""

import asyncio
import contextlib
import os
import select
import termios
import threading
from collections import deque

from treadle.wire.common.jsontext import repaired


class TypedLines:
    """One line at a time from the terminal. The one who stops waiting for a line does not lose what is being typed."""

    def __init__(self) -> None:
        self._pending: asyncio.Future[str] | None = None
        self._ahead: deque[str] = deque()
        """Lines typed while no one was reading."""
        self._begun = ""
        """The unfinished line after those."""
        self._ended = False
        try:
            self._terminal = termios.tcgetattr(0)
        except termios.error:
            self._terminal = []

    async def line(self, prompt: str, *, fresh: bool = False) -> str:
        """The next line. Raises EOFError at the end of input, and at every call after that.

        With `fresh`, what was typed before this call is dropped.
        """
        self._collect_typed()
        if fresh:
            self._ahead.clear()
            self._begun = ""
            with contextlib.suppress(termios.error):
                termios.tcflush(0, termios.TCIFLUSH)  # also drops what was typed without Enter
        if self._ahead or self._ended:
            print(prompt + (self._ahead[0] if self._ahead else ""))
            if not self._ahead:
                raise EOFError
            return self._ahead.popleft()
        if self._pending is None:
            loop = asyncio.get_running_loop()
            self._pending = loop.create_future()
            # A daemon thread, not the loop's executor: a person who never presses Enter must not keep us from exiting.
            threading.Thread(target=_read, args=(prompt, self._begun, loop, self._pending), daemon=True).start()
            self._begun = ""
        else:
            print(prompt, end="", flush=True)
        await asyncio.wait([self._pending])
        return self._take()

    def _take(self) -> str:
        """Take the line that the thread has read."""
        assert self._pending is not None
        line, self._pending = self._pending, None
        self._ended = self._ended or line.exception() is not None
        return line.result()

    def _collect_typed(self) -> None:
        """Take what the terminal itself collected between two questions: lines, and a Ctrl-D."""
        if self._pending is not None:
            if self._pending.done():
                with contextlib.suppress(EOFError):
                    self._ahead.append(self._take())
            return
        while not self._ended and select.select([0], [], [], 0)[0]:
            try:
                data = os.read(0, 65536)
            except OSError:  # the terminal is gone
                data = b""
            self._ended = not data
            # Enter arrives as CR in what was typed before the line editor restored the terminal.
            *lines, self._begun = (self._begun + data.decode(errors="replace")).replace("\r", "\n").split("\n")
            self._ahead += lines

    def close(self) -> None:
        """Restore the terminal: while a line is being edited, its own echo is off."""
        if self._terminal:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)


def _read(prompt: str, begun: str, loop: asyncio.AbstractEventLoop, future: asyncio.Future[str]) -> None:
    def settle(text: str | None) -> None:
        if not future.done():
            future.set_exception(EOFError()) if text is None else future.set_result(text)

    try:
        with contextlib.suppress(ImportError):
            import readline  # gives input() line editing and history

            readline.set_startup_hook(lambda: readline.insert_text(begun))
        # A terminal may send bytes that are not UTF-8, and half a character can be neither kept nor sent on.
        text: str | None = repaired(input(prompt))
    except (EOFError, KeyboardInterrupt, ValueError):
        text = None
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, text)
