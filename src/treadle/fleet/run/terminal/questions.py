"""What the program in an order's terminal asks becomes a question of the order, which can be answered from anywhere.

The answer is typed: `allow` is Enter, which takes what is marked on the screen, or the single key that comes with it;
`deny` is Escape. A longer text is typed, with Enter, where the program asks for words. Where a person answers in the
terminal itself, the question is over.
"""

import asyncio
import contextlib
import logging
import time
from typing import Any

from treadle.errors import TreadleError
from treadle.fleet.run.questions import Questions
from treadle.session import Answer
from treadle.terminal.client import Client
from treadle.wire.fleet.records import AgentQuestion

log = logging.getLogger(__name__)

SCREEN_MAX = 4000
AGAIN_SECONDS = 3.0
"""How long a program has to leave its dialog once the answer was typed, before it counts as asking again."""
HOW = {
    "permission": "allow is Enter, which takes what is marked, or the key that you give with it (1, y); deny is Escape",
    "question": "allow is Enter, which takes what is marked, or the words that you give with it; deny is Escape",
}
ENTER, ESCAPE = b"\r", b"\x1b"


class TerminalQuestions:
    """One program's questions, one at a time."""

    def __init__(self, questions: Questions, path: str) -> None:
        self._questions = questions
        self._path = path
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self._typed = 0.0

    async def look(self, detail: dict[str, Any]) -> None:
        """Take in what the terminal seems to do now."""
        state = detail.get("state") or {}
        asks = state.get("waiting_for")
        if asks and self._task is None and not state.get("settling") and time.monotonic() - self._typed > AGAIN_SECONDS:
            self._count += 1
            self._task = asyncio.create_task(self._settle(str(asks), str(state.get("message") or "")))
        elif not asks:
            self._typed = 0.0
            await self.close()

    async def close(self) -> None:
        """The program does not ask any more: the one who was asked need not answer."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _settle(self, kind: str, message: str) -> None:
        screen = await asyncio.to_thread(_screen, self._path)
        asked = AgentQuestion(
            request=f"terminal {self._count}",
            kind=kind,
            headline=message or "the program in its terminal asks",
            text=screen[-SCREEN_MAX:],
            why=HOW.get(kind, ""),
            tool="terminal",
        )
        try:
            answer = await self._questions.settle(asked)
            self._typed = time.monotonic()
            await asyncio.to_thread(_type, self._path, keys(kind, answer))
        except TreadleError as error:  # the program has ended meanwhile, or the engine is away: it is asked again
            log.warning("a question of the terminal was not answered: %s", error)
        self._task = None


def _screen(path: str) -> str:
    try:
        with Client(path, timeout=5.0) as client:
            return str(client.explain().get("screen") or "").rstrip()
    except TreadleError:
        return ""


def keys(kind: str, answer: Answer) -> bytes:
    """What is typed for an answer."""
    if answer.decision != "allow":
        return ESCAPE
    words = " ".join(answer.text.split()) if answer.by != "deadline" else ""
    if len(words) == 1:
        return words.encode()
    return words.encode() + ENTER if kind == "question" else ENTER


def _type(path: str, data: bytes) -> None:
    """Type it, unless the program asks no more: then it was answered by another process."""
    with Client(path, timeout=5.0) as client:
        if (client.detail().get("state") or {}).get("waiting_for"):
            client.input(data)
