"""Lines that a person types, with editing and history, while the event loop goes on."""

import asyncio
import contextlib
import os
import select
import termios
import threading
from collections import deque

from treadle.wire.common.jsontext import mended


class TypedLines:
    """One line at a time from the terminal. Giving up waiting for a line does not lose what is being typed."""

    def __init__(self) -> None:
        self._pending: asyncio.Future[str] | None = None
        self._ahead: deque[str] = deque()
        """Typed while nobody asked."""
        self._begun = ""
        """The beginning of the line after those."""
        self._ended = False
        try:
            self._terminal = termios.tcgetattr(0)
        except termios.error:
            self._terminal = []

    async def line(self, prompt: str, *, fresh: bool = False) -> str:
        """The next line; raises EOFError at the end of input, from then on always.

        A `fresh` one was not typed before it was asked for.
        """
        self._take_what_is_there()
        if fresh:
            self._ahead.clear()
            self._begun = ""
            with contextlib.suppress(termios.error):
                termios.tcflush(0, termios.TCIFLUSH)  # and what has no Enter behind it yet
        if self._ahead or self._ended:
            print(prompt + (self._ahead[0] if self._ahead else ""))
            if not self._ahead:
                raise EOFError
            return self._ahead.popleft()
        if self._pending is None:
            loop = asyncio.get_running_loop()
            self._pending = loop.create_future()
            # A daemon, not the loop's executor: a person who never presses Enter must not keep us from exiting.
            threading.Thread(target=_read, args=(prompt, self._begun, loop, self._pending), daemon=True).start()
            self._begun = ""
        else:
            print(prompt, end="", flush=True)
        await asyncio.wait([self._pending])
        return self._take()

    def _take(self) -> str:
        """The line that the thread has read."""
        assert self._pending is not None
        line, self._pending = self._pending, None
        self._ended = self._ended or line.exception() is not None
        return line.result()

    def _take_what_is_there(self) -> None:
        """Between two questions the terminal itself collects lines, and what Ctrl-D said."""
        if self._pending is not None:
            if self._pending.done():
                with contextlib.suppress(EOFError):
                    self._ahead.append(self._take())
            return
        while not self._ended and select.select([0], [], [], 0)[0]:
            try:
                said = os.read(0, 65536)
            except OSError:  # the terminal is gone
                said = b""
            self._ended = not said
            # Enter is still a CR in what came before the line editor gave the terminal back.
            *lines, self._begun = (self._begun + said.decode(errors="replace")).replace("\r", "\n").split("\n")
            self._ahead += lines

    def close(self) -> None:
        """Leave the terminal as it was: a line still being typed is edited without the terminal's own echo."""
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)


def _read(prompt: str, begun: str, loop: asyncio.AbstractEventLoop, future: asyncio.Future[str]) -> None:
    def settle(text: str | None) -> None:
        if not future.done():
            future.set_exception(EOFError()) if text is None else future.set_result(text)

    try:
        with contextlib.suppress(ImportError):
            import readline  # line editing and history for input()

            readline.set_startup_hook(lambda: readline.insert_text(begun))
        # What a terminal sends need not be UTF-8, and half a character could not be kept or sent on.
        text: str | None = mended(input(prompt))
    except (EOFError, KeyboardInterrupt, ValueError):
        text = None
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, text)
