"""`treadle`: talk with an agent, line by line. Ctrl-C interrupts the turn and keeps the session."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any, Literal

import click

from treadle import __version__
from treadle.agents import find_agent
from treadle.cli.lines import TypedLines
from treadle.cli.notes import opening_notes
from treadle.cli.options import RunOptions, run_options, take
from treadle.cli.render import Renderer, printable
from treadle.cli.reporting import Reporter
from treadle.errors import NotFound, TreadleError
from treadle.events import FINISHED, Answered, Asked, TaskChanged, TurnEnded
from treadle.session import Answer, CommandResult, Prompt, Session
from treadle.sessions.totals import Fold
from treadle.wire.oneshot.records import command_of

SCOPES: dict[str, Literal["once", "session", "always"]] = {
    **dict.fromkeys(("y", "yes"), "once"),
    **dict.fromkeys(("s", "session"), "session"),
    **dict.fromkeys(("a", "always"), "always"),
}


@click.command("chat")
@click.argument("prompt", required=False)
@run_options
def chat(prompt: str | None, **values: Any) -> None:
    """Talk with an agent in this directory.

    Type what you want done; /help lists commands, Ctrl-C interrupts the agent, Ctrl-D leaves, once the agent is done.
    The session is kept: `treadle -c` goes on with it.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("a chat needs a terminal; for scripts there is `treadle -p PROMPT`")
    options = take(values)
    sys.exit(asyncio.run(_chat(prompt, options)))


async def _chat(first: str | None, options: RunOptions) -> int:
    session = await find_agent(options.agent).open(options.spec(answers=True, default_mode="suggest"))
    talk = Talk(session)
    talking = asyncio.create_task(talk.run(first))
    beside = [asyncio.create_task(talk.watch()), asyncio.create_task(talk.reporter.remind())]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, talk.ctrl_c)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, talking.cancel)
    try:
        await asyncio.wait([talking])
    finally:
        for task in beside:
            task.cancel()
        await session.close()
        talk.typed.close()
    if talking.cancelled():
        return 1
    try:
        talking.result()
        talk.reporter.say("clear")
        print(f"\nsession {session.id} is kept: treadle --resume {session.id}")
    except OSError:  # the terminal is gone
        return 1
    return 0


class Talk:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.typed = TypedLines()
        self.show = Renderer()
        self.reporter = Reporter()
        self.turn: str | None = None
        self._leaving = False
        self._busy: str | None = None
        """The command that runs, as it was typed."""
        self._fresh: asyncio.Queue[Asked] = asyncio.Queue()
        self._waiting: list[Asked] = []
        """Questions of background tasks that nobody has answered yet."""
        self._interrupts: set[asyncio.Task[None]] = set()

    def greet(self) -> None:
        models = ", ".join(self.session.info.models)
        self.show.heading(f"treadle {__version__} · {self.session.info.name} · {models or 'its own model'}")
        print("Ctrl-C interrupts, Ctrl-D leaves, /help lists commands.")
        for note in opening_notes(self.session):
            print(printable(note), file=sys.stderr)

    def ctrl_c(self) -> None:
        target = self.turn or self._busy
        if target is None:
            print("\n(Ctrl-D or /exit leaves)\n> ", end="", flush=True)
            return
        task = asyncio.create_task(self.session.interrupt(target, "interrupted by the person"))
        self._interrupts.add(task)
        task.add_done_callback(self._interrupts.discard)

    async def run(self, first: str | None) -> None:
        self.greet()
        self.reporter.say("idle")
        text = first
        while not self._leaving:
            try:
                text = text if text is not None else await self.typed.line("\n> ")
            except EOFError:
                return
            if text.strip():
                self.reporter.say("working")
                await self._one(text.strip())
                self._remind()
            elif self._waiting:
                await self._ask(self._waiting.pop(0))
            self.reporter.at_rest(self._waiting)
            text = None

    async def watch(self) -> None:
        """What happens outside of turns: what background tasks come to, and what they ask."""
        async for event in self.session.events(after=-1, observer=True):
            if isinstance(event, Answered):
                self._waiting = [asked for asked in self._waiting if asked.request != event.request]
            elif event.turn:
                continue
            elif isinstance(event, Asked):
                self._put_aside(event)
            elif self._busy is not None:
                self.show.show(event)
            elif isinstance(event, TaskChanged) and event.task and event.task.status in FINISHED:
                self._aside(f"{event.task_id} ({event.task.label}) {event.change}: /agent read {event.task_id}")

    def _put_aside(self, asked: Asked) -> None:
        """Keep it until the person has time for it: while a command runs, that is at once."""
        if self._busy is not None:
            self._fresh.put_nowait(asked)
            return
        self._waiting.append(asked)
        if self.turn is None:
            self.reporter.at_rest(self._waiting)
            self._aside(_question(asked))

    def _remind(self) -> None:
        for asked in self._waiting:
            print(f"\n◇ {printable(_question(asked))}")

    def _aside(self, text: str) -> None:
        print(f"\n◇ {printable(text)}\n> ", end="", flush=True)

    async def _one(self, text: str) -> None:
        try:
            command = command_of(text)
            if command is not None:
                await self._command(*command)
            else:
                reader = self.session.events(after=-1)
                await self._follow(reader, await self.session.prompt(Prompt(text=text)))
        except TreadleError as error:
            print(printable(str(error)), file=sys.stderr)

    async def _command(self, name: str, args: str) -> None:
        if name in ("exit", "quit"):
            self._leaving = True
            return
        reader = self.session.events(after=-1)
        result = await self._until_answered(name, args)
        if result is None:
            reader.close()
            raise NotFound(f"unknown command /{name}", hint="/help lists them")
        if result.turn is not None:
            await self._follow(reader, result.turn)
            return
        reader.close()
        if result.ok:
            print(printable(result.message))
        else:
            print(printable(result.message or "interrupted"), file=sys.stderr)

    async def _until_answered(self, name: str, args: str) -> CommandResult | None:
        """The command's result. Meanwhile `watch` tells of its tasks, their questions are put, and Ctrl-C ends it."""
        self._busy = f"/{name}"
        asking = asyncio.create_task(self._put_questions())
        try:
            return await self.session.command(name, args)
        finally:
            self._busy = None
            asking.cancel()
            await asyncio.wait([asking])

    async def _put_questions(self) -> None:
        """Those that come while a command runs. What is open when it ends has to wait."""
        asked: Asked | None = None
        try:
            while True:
                asked = await self._fresh.get()
                await self._ask(asked)
                asked = None
        finally:
            self._waiting += [asked] if asked else []
            while not self._fresh.empty():
                self._waiting.append(self._fresh.get_nowait())

    async def _follow(self, reader: Any, turn: str) -> None:
        folded = Fold()
        self.turn = turn
        try:
            async for event in reader:
                if event.turn != turn:
                    continue
                folded.add(event)
                self.show.show(event)
                self.reporter.event(event)
                if isinstance(event, Asked) and not await self._ask(event) and event.parent is not None:
                    self._put_aside(event)  # the turn is over, the task that asks is not
                if isinstance(event, TurnEnded):
                    break
        finally:
            self.turn = None
            reader.close()
        self.show.total(folded.summary())

    async def _ask(self, asked: Asked) -> bool:
        """Put the question while the turn can still be interrupted: then it is gone. Says whether it was answered."""
        self.show.line()
        self.reporter.asked(asked)
        question = asyncio.create_task(self._answer(asked))
        ended = asyncio.create_task(self._gone(asked.request, asked.seq, asked.turn))
        try:
            await asyncio.wait([question, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (question, ended):
                task.cancel()
            self.reporter.say("working")
        if not question.done() or question.cancelled():
            return False
        try:
            await self.session.answer(asked.request, question.result())
        except NotFound as error:
            print(printable(str(error)), file=sys.stderr)
        return True

    async def _gone(self, request: str, seq: int, turn: str) -> None:
        """Until the question is answered in another way: by its deadline, or because the turn ended."""
        async for event in self.session.events(after=seq, observer=True):
            if (isinstance(event, TurnEnded) and event.turn == turn) or getattr(event, "request", None) == request:
                return

    async def _answer(self, asked: Asked) -> Answer:
        try:
            if asked.kind == "question":
                return await self._choose(asked)
            what = asked.text if asked.kind == "plan" else f"{asked.text}\n  {_about(asked)}"
            print(printable(what))
            choices = "allow? [y]es, [n]o, for this [s]ession, [a]lways, or say what to do instead: "
            word = (await self.typed.line(choices, fresh=True)).strip()
        except EOFError:
            return Answer(decision="deny", text="the person left")
        if word.lower() in SCOPES:
            return Answer(decision="allow", scope=SCOPES[word.lower()])
        return Answer(decision="deny", text="" if word.lower() in ("", "n", "no") else word)

    async def _choose(self, asked: Asked) -> Answer:
        print(printable(asked.text))
        for number, option in enumerate(asked.options, 1):
            print(f"  {number}. {printable(option)}")
        word = (await self.typed.line("answer: ")).strip()
        if word.isdigit() and 0 < int(word) <= len(asked.options):
            word = asked.options[int(word) - 1]
        return Answer(decision="allow" if word else "deny", text=word or "no answer")


def _question(asked: Asked) -> str:
    return f"{asked.parent or 'the agent'} asks: {asked.text} (press Enter to answer)"


def _about(asked: Asked) -> str:
    if asked.command:
        return asked.command
    return ", ".join(asked.paths) or str(asked.args or "")
