"""The conversation: prompts one after the other, words for the running one, questions, the person's own commands.

It knows nothing about terminals: it shows and asks through a View.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from treadle.cli.chat import own
from treadle.cli.chat.attention import Attention
from treadle.cli.chat.page import Page
from treadle.cli.chat.question import Question
from treadle.cli.chat.shell import CommandDone, own_command
from treadle.cli.chat.status import Status
from treadle.cli.render import printable
from treadle.cli.reporting import Reporter
from treadle.errors import Cancelled, NotFound, TreadleError, Unsupported
from treadle.events import FINISHED, Answered, AnyEvent, Asked, TaskChanged, TurnEnded
from treadle.io.files import append_lines
from treadle.io.within import start_held
from treadle.session import Answer, Change, CommandResult, EventReader, Mode, Prompt, Session
from treadle.sessions.totals import TurnTotals
from treadle.wire.oneshot.records import command_of


class View(Protocol):
    """Where a conversation is shown."""

    glance: float
    """How many seconds a question is shown before it can be answered."""
    plain: bool
    """Whether it is line by line, with nothing redrawn."""

    def vim(self) -> bool:
        """Edit the input as in vim, or no longer. Returns which."""
        ...

    def print(self, text: str) -> None:
        """Show finished text above the live part."""
        ...

    def changed(self) -> None:
        """Something in the live part has changed."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Ask a question; cancelled when it was answered elsewhere or its turn is over. EOFError: the person left."""
        ...


Picker = Callable[[str], Awaitable[str | None]]
"""Choose the argument of a command that was typed without one. None: run the command as it was typed."""


class Talk:
    def __init__(self, session: Session, view: View, page: Page, status: Status, cwd: str) -> None:
        self.session = session
        self.view = view
        self.page = page
        self.status = status
        self.cwd = cwd
        self.reporter = Reporter()
        self.attention = Attention(())
        self.last_text = ""
        """The agent's last answer."""
        self.queued: deque[str] = deque()
        """Prompts to send after this turn, as they were typed."""
        self.waiting: list[Asked] = []
        """Unanswered questions of background tasks."""
        self.pickers: dict[str, Picker] = {}
        self._ran: list[str] = []
        """Commands that the person ran, with their output; the agent reads them with the next prompt."""
        self._turn: str | None = None
        self._busy: str | None = None
        """The running command, as it was typed."""
        self._own: asyncio.Task[CommandDone] | None = None
        self._leaving = False
        self._more = asyncio.Event()
        self._rest = asyncio.Event()
        self._fresh: asyncio.Queue[Asked] = asyncio.Queue()
        self._beside: set[asyncio.Task[Any]] = set()

    # What a person does

    @property
    def busy(self) -> bool:
        return self._turn is not None or self._busy is not None or self._own is not None

    def enter(self, text: str) -> None:
        """Enter: send a prompt when nothing runs, otherwise add words to the running turn."""
        if self._turn is not None and not text.startswith(("/", "!", "#")):
            self._start(self._steer(self._turn, text))
        else:
            self.queue(text)

    def queue(self, text: str) -> None:
        """Tab: queue a prompt for after this turn."""
        self.queued.append(text)
        self._rest.clear()
        self._more.set()
        self.view.changed()

    def unqueue(self) -> str | None:
        """Take the last queued prompt back into the input."""
        return self.queued.pop() if self.queued else None

    def interrupt(self) -> bool:
        """End what runs. False when nothing runs."""
        if self._own is not None:
            return self._own.cancel()
        target = self._turn or self._busy
        if target is not None:
            self._start(self.session.interrupt(target, "interrupted by the person"))
        return target is not None

    def next_mode(self) -> None:
        """Shift-Tab: go on to the next permission mode."""
        now = self.session.info.mode
        at = own.CYCLE.index(now) + 1 if now in own.CYCLE else 0
        self._start(self._change_mode(own.CYCLE[at % len(own.CYCLE)]))

    async def _change_mode(self, mode: Mode) -> None:
        try:
            await self.session.configure(Change(mode=mode))
        except TreadleError as error:
            self._complain(str(error))
        self.view.changed()

    def leave(self) -> None:
        """Leave once everything that runs or is queued is done."""
        self._leaving = True
        self._more.set()

    def quit(self) -> None:
        """Leave at once: end what runs, drop what is queued."""
        self.queued.clear()
        self.interrupt()
        self.leave()

    async def rest(self) -> None:
        await self._rest.wait()

    def _start(self, doing: Coroutine[Any, Any, Any]) -> None:
        start_held(self._beside, doing)

    async def _steer(self, turn: str, text: str) -> None:
        try:
            heard = await self.session.steer(turn, text)
        except Unsupported as error:
            heard = False
            self.view.print(self.page.note("yellow", f"{error.message}: this is the next prompt instead"))
        if heard:
            self.view.print(self.page.note("bold", f"» {text}"))
        else:
            self.queue(text)

    # The conversation

    async def run(self) -> None:
        """Hold the conversation until the person leaves."""
        self.reporter.say("idle")
        while True:
            while not self.queued:
                self._rest.set()
                if self._leaving:
                    return
                self._more.clear()
                await self._more.wait()
            text = self.queued.popleft()
            if text.strip():
                self.reporter.say("working")
                self.attention.working()
                await self._one(text.strip())
            elif self.waiting:
                await self._ask(self.waiting.pop(0))
            self.page.progress.end()
            self.reporter.at_rest(self.waiting)
            if not self.queued:
                self.attention.rested()
            for asked in self.waiting:
                self._print_waiting(asked)
            self.view.changed()

    async def _one(self, text: str) -> None:
        self.view.print(self.page.prompt(text))
        try:
            if text == "?":
                self.view.print(self.page.note("", await own.keys(self, "")) + "\n")
            elif text.startswith("!") and text[1:].strip():
                await self._shell(text[1:].strip())
            elif text.startswith("#") and "\n" not in text and text.strip("# \t"):
                self._note(text.strip("# \t"))
            elif (command := command_of(text)) is not None:
                await self._command(*command)
            else:
                await self._prompt(text)
        except TreadleError as error:
            self._complain(str(error))

    async def _prompt(self, text: str) -> None:
        prompt = "\n\n".join([*self._ran, text])
        self._ran.clear()
        self.page.progress.begin()
        self.view.print(self.page.waits())
        self.view.changed()
        reader = self.session.events(after=-1)
        try:
            turn = await self.session.prompt(Prompt(text=prompt))
        except BaseException:
            reader.close()
            raise
        await self._follow(reader, turn)

    async def _shell(self, command: str) -> None:
        self.page.progress.begin("your command")
        running = own_command(command, self.cwd, lambda text: self.view.print(printable(text)))
        self._own = asyncio.create_task(running)
        try:
            await asyncio.wait([self._own])
        finally:
            own, self._own = self._own, None
            own.cancel()
        if own.cancelled():
            raise Cancelled(f"your command was interrupted: {command}")
        if own.result().code:
            self._complain(f"exit code {own.result().code}")
        self.view.print("\n")
        self._ran.append(f"I ran a command of my own:\n$ {command}\n{own.result().report}")

    def _note(self, text: str) -> None:
        append_lines(f"{self.cwd}/AGENTS.md", [f"- {' '.join(text.split())}".encode()], mode=0o644)
        done = "noted in AGENTS.md, which the agent reads at the start of every turn"
        self.view.print(self.page.note("dim", done) + "\n")

    async def _command(self, name: str, args: str) -> None:
        if name in ("exit", "quit"):
            self._leaving = True
            self.queued.clear()
            return
        if name in own.COMMANDS:
            if text := await own.COMMANDS[name].run(self, args):
                self.view.print(self.page.note("", text) + "\n")
            return
        if not args and name in self.pickers:
            chosen = await self.pickers[name]("")
            if chosen is None:
                return
            args = chosen
        reader = self.session.events(after=-1)
        try:
            result = await self._until_answered(name, args)
            if result is not None and result.turn is not None:
                await self._follow(reader, result.turn)
                return
        finally:
            reader.close()
        if result is None:
            raise NotFound(f"unknown command /{name}", hint="/help lists them")
        if result.ok:
            more = f"\n\n{own.help_text()}" if name == "help" and not args else ""
            self.view.print(self.page.note("", result.message + more) + "\n")
        else:
            self._complain(result.message or "interrupted")

    async def _until_answered(self, name: str, args: str) -> CommandResult | None:
        """The command's result. While it runs, show what its tasks do and ask their questions."""
        self._busy = f"/{name}"
        self.page.progress.begin(f"/{name}")
        asking = asyncio.create_task(self._put_questions())
        try:
            return await self.session.command(name, args)
        finally:
            self._busy = None
            self.page.progress.end()
            asking.cancel()
            await asyncio.wait([asking])

    async def _put_questions(self) -> None:
        """Ask the person what comes up while a command runs. A question still open at its end is kept for later."""
        asked: Asked | None = None
        try:
            while True:
                asked = await self._fresh.get()
                await self._ask(asked)
                asked = None
        finally:
            self.waiting += [asked] if asked else []
            while not self._fresh.empty():
                self.waiting.append(self._fresh.get_nowait())

    async def _follow(self, reader: EventReader, turn: str) -> None:
        totals = TurnTotals()
        self._turn = turn
        try:
            async for event in reader:
                if event.turn != turn:
                    continue
                totals.add(event)
                self._show(event)
                if isinstance(event, Asked) and not await self._ask(event) and event.parent is not None:
                    self._put_aside(event)  # the turn is over, but the task that asks still runs
                if isinstance(event, TurnEnded):
                    self.last_text = event.text
                    break
        finally:
            self._turn = None
            reader.close()
        self.view.print(self.page.total(totals.summary()))

    def _show(self, event: AnyEvent) -> None:
        self.status.feed(event)
        self.reporter.event(event)
        if text := self.page.feed(event):
            self.view.print(text)
        self.view.changed()

    # Beside the turns

    async def watch(self) -> None:
        """Show what happens outside of turns: how background tasks end, and what they ask."""
        async for event in self.session.events(after=-1, observer=True):
            if isinstance(event, Answered):
                self.waiting = [asked for asked in self.waiting if asked.request != event.request]
            elif event.turn:
                continue
            elif isinstance(event, Asked):
                self._put_aside(event)
            elif self._busy is not None:
                self._show(event)
            elif isinstance(event, TaskChanged) and event.task and event.task.status in FINISHED:
                news = f"{event.task_id} ({event.task.label}) {event.change}: /agent read {event.task_id}"
                self.view.print(self.page.note("dim", news))

    def _put_aside(self, asked: Asked) -> None:
        """Keep a question until the person has time for it; while a command runs, they have time now."""
        if self._busy is not None:
            self._fresh.put_nowait(asked)
            return
        self.waiting.append(asked)
        self._print_waiting(asked)
        if self._turn is None:
            self.reporter.asked(asked)

    def _print_waiting(self, asked: Asked) -> None:
        who = asked.parent or "the agent"
        asks = Question(asked, self.cwd).headline
        self.view.print(self.page.note("yellow", f"{who} asks: {asks} (press Enter to answer)"))

    async def _ask(self, asked: Asked) -> bool:
        """Ask a question for as long as it is open. Returns whether the person answered it."""
        # A program that drives the chat answers as soon as it hears of the question, so tell it only when keys are
        # accepted.
        telling = asyncio.get_running_loop().call_later(self.view.glance, self.reporter.asked, asked)
        self.attention.asked(asked)
        question = asyncio.create_task(self._answer(Question(asked, self.cwd)))
        gone = asyncio.create_task(self._gone(asked))
        try:
            await asyncio.wait([question, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (question, gone):
                task.cancel()
            await asyncio.wait([question, gone])
            telling.cancel()
            self.reporter.say("working")
            self.attention.working()
        if question.cancelled():
            return False
        try:
            await self.session.answer(asked.request, question.result())
        except NotFound as error:
            self._complain(str(error))
        return True

    async def _answer(self, question: Question) -> Answer:
        try:
            return await self.view.ask(question)
        except EOFError:
            self.leave()
            return Answer(decision="deny", text="the person left")

    async def _gone(self, asked: Asked) -> None:
        """Wait until the question is settled in another way: by its deadline, or because the turn ended."""
        async for event in self.session.events(after=asked.seq, observer=True):
            over = isinstance(event, TurnEnded) and event.turn == asked.turn
            if over or getattr(event, "request", None) == asked.request:
                return

    def _complain(self, text: str) -> None:
        self.view.print(self.page.note("red", text))
