"""Lines that a person types, with editing and history, while the event loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
import termios
import threading


class TypedLines:
    """One line at a time from the terminal. Giving up waiting for a line does not lose what is being typed."""

    def __init__(self) -> None:
        self._pending: asyncio.Future[str] | None = None
        try:
            self._terminal = termios.tcgetattr(0)
        except termios.error:
            self._terminal = []
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # line editing and history for input()

    async def line(self, prompt: str, *, fresh: bool = False) -> str:
        """The next line; raises EOFError at the end of input. A `fresh` one was not typed before it was asked for."""
        if self._pending is None or self._pending.done():
            if fresh:
                with contextlib.suppress(termios.error):
                    termios.tcflush(0, termios.TCIFLUSH)
            loop = asyncio.get_running_loop()
            self._pending = loop.create_future()
            # A daemon, not the loop's executor: a person who never presses Enter must not keep us from exiting.
            threading.Thread(target=_read, args=(prompt, loop, self._pending), daemon=True).start()
        else:
            print(prompt, end="", flush=True)
        return await asyncio.shield(self._pending)

    def close(self) -> None:
        """Leave the terminal as it was: a line still being typed is edited without the terminal's own echo."""
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)


def _read(prompt: str, loop: asyncio.AbstractEventLoop, future: asyncio.Future[str]) -> None:
    def settle(text: str | None) -> None:
        if not future.done():
            future.set_exception(EOFError()) if text is None else future.set_result(text)

    try:
        # What a terminal sends need not be UTF-8, and half a character could not be kept or sent on.
        text: str | None = input(prompt).encode(errors="replace").decode()
    except (EOFError, KeyboardInterrupt, ValueError):
        text = None
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, text)
