"""A chat's screen in this process: keys come through a pipe, and what is done is written down."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from tests.waiting import until
from treadle.cli.chat.page import Page, Progress
from treadle.cli.chat.question import Question
from treadle.cli.chat.screen import ChatCompleter, ChatScreen
from treadle.events import Asked
from treadle.session import Answer, CommandInfo
from treadle.settings.config import ChatSettings
from treadle.terminal.viewers.screen import Screen

COLS, ROWS = 60, 20
COMMANDS = [CommandInfo(name="model"), CommandInfo(name="mode"), CommandInfo(name="help")]


class Done:
    """The actions of a person, written down."""

    def __init__(self) -> None:
        self.busy = False
        self.did: list[str] = []
        self.waiting: list[str] = []

    def enter(self, text: str) -> None:
        self.did.append(f"enter {text}")

    def queue(self, text: str) -> None:
        self.did.append(f"queue {text}")

    def unqueue(self) -> str | None:
        return self.waiting.pop() if self.waiting else None

    def interrupt(self) -> bool:
        self.did.append("interrupt")
        return self.busy

    def next_mode(self) -> None:
        self.did.append("mode")

    def leave(self) -> None:
        self.did.append("leave")

    def quit(self) -> None:
        self.did.append("quit")

    async def rest(self) -> None:
        pass


class Typist:
    def __init__(self, screen: ChatScreen, keys: PipeInput, drawn: io.StringIO) -> None:
        self.screen, self._keys, self._drawn = screen, keys, drawn
        self.done = Done()
        screen.actions = self.done
        screen.queued = lambda: self.done.waiting

    def types(self, text: str) -> None:
        self._keys.send_text(text)

    async def did(self, *acts: str) -> None:
        """Wait until this was done, and nothing else before it."""
        await until(lambda: len(self.done.did) >= len(acts))
        assert self.done.did == list(acts)
        self.done.did.clear()

    async def holds(self, text: str) -> None:
        await until(lambda: self.screen.input.text == text)

    async def sees(self, text: str) -> str:
        found: list[str] = []

        def there() -> bool:
            self.screen.app.invalidate()
            with Screen(COLS, ROWS) as shown:
                shown.feed(self._drawn.getvalue().encode())
                found[:] = ["\n".join(shown.lines()).rstrip()]
            return text in found[0]

        await until(there)
        return found[0]

    async def asked(self, asked: Asked, cwd: str = "/") -> "asyncio.Task[Answer]":
        """A question on the screen."""
        answer = asyncio.create_task(self.screen.ask(Question(asked, cwd)))
        await until(lambda: self.screen.question is not None)
        return answer


@asynccontextmanager
async def typing(**settings: Any) -> AsyncIterator[Typist]:
    drawn = io.StringIO()
    output = Vt100_Output(drawn, lambda: Size(rows=ROWS, columns=COLS), term="xterm", enable_cpr=False)
    with create_pipe_input() as keys, create_app_session(input=keys, output=output):
        screen = ChatScreen(
            Progress(),
            history=InMemoryHistory(),
            completer=ChatCompleter("/nowhere", lambda: COMMANDS),
            status=lambda: ["the status"],
            colour=False,
            settings=ChatSettings(**settings),
        )
        screen.page = Page(lambda: COLS, colour=False, progress=screen.progress)
        typist = Typist(screen, keys, drawn)
        running = asyncio.create_task(screen.run())
        await screen.shown.wait()
        try:
            yield typist
        finally:
            await screen.close()
            await running
