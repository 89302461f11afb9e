"""The conversation: prompts one after the other, words for the running one, questions, the person's own commands.

It knows nothing about terminals: it shows and asks through a View.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar

from msgspec.structs import replace

from treadle import events
from treadle.agent.providers.known import window
from treadle.agents import agent_settings, declared, find_card
from treadle.cli.chat.page import Page
from treadle.cli.chat.question import Question
from treadle.cli.render import brief, one_line, printable
from treadle.errors import Cancelled, ConfigError, NotFound, TreadleError, Unsupported
from treadle.io.files import append_lines, write_atomic
from treadle.io.process.child import Tail, start
from treadle.io.tasks import start_held
from treadle.redact import Redactor
from treadle.sandboxed.turns import TurnCheck
from treadle.session import Answer, Change, CommandResult, Mode, Prompt, Session
from treadle.sessions.handover import Gathering
from treadle.sessions.totals import ServedTurn, Totals, TurnSummary
from treadle.terminal.reports import compose
from treadle.terminal.settings import STATE_FILE_VARIABLE
from treadle.verification.ending import CheckedEnding, claims_success
from treadle.wire.oneshot.connection import command_of

T = TypeVar("T")

# `!command`: a command that the person runs, shown as it runs and reported to the agent with the next prompt.

REPORTED_BYTES = 16 << 10
"""How many bytes of the output the agent gets; of a longer one, the end."""


@dataclass(frozen=True)
class CommandDone:
    code: int
    report: str
    """What the agent gets to read about the command."""


async def own_command(command: str, cwd: str, show: Callable[[str], None]) -> CommandDone:
    """Run the command, show its lines, and return what the agent is told about it. Cancelling this ends the command."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    output, begun = Tail(REPORTED_BYTES), b""
    async with await start([shell, "-c", command], cwd=cwd, env=os.environ, stderr="stdout") as child:
        while data := await child.stdio.read():
            output.feed(data)
            lines, newline, begun = (begun + data).rpartition(b"\n")
            if newline:
                show((lines + newline).decode("utf-8", "replace"))
        if begun:
            show(begun.decode("utf-8", "replace") + "\n")
        code = await child.wait()
    return CommandDone(code, output.text if code == 0 else f"{output.text}\n(exit code {code})")


# Slash commands of the chat itself: they work with every agent, and the agent never sees them.

CYCLE: tuple[Mode, ...] = ("suggest", "auto-edit", "plan")
"""What Shift-Tab goes through; the modes that never ask are chosen by name."""
COPIED_MAX = 100_000
"""Bytes that /copy sends at most: terminals drop longer ones."""
INIT = (
    "Look at this repository and write AGENTS.md: what the project is, how it is built, tested and run (try the"
    " commands), where things are, and conventions that are not obvious. At most 60 lines. If there is"
    " one already, improve it."
)
REVIEW = (
    "Review the changes that are not committed yet (git diff HEAD, and new files); if there are none, the last commit."
    " Change nothing. List real problems first: bugs, missing tests, security; file and line for each. Then say in one"
    " sentence whether you would merge it."
)
KEYS = (
    ("Enter", "send; while the agent works: add to what it is doing"),
    ("Tab", "complete; while the agent works: queue for afterwards"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("Shift-Tab", f"the next permission mode: {', '.join(CYCLE)}"),
    ("Esc, Ctrl-C", "interrupt; Ctrl-C twice leaves, and Ctrl-D on an empty line"),
    ("Esc Esc", "on an empty line: go back to before a turn, with its files"),
    ("Ctrl-O", "show what was folded: thinking, output of tools"),
    ("F5", "run the project's check on what was changed"),
    ("Ctrl-G", "write in your editor"),
    ("Ctrl-R, Up", "what you typed before"),
    ("Ctrl-V", "paste an image of the clipboard"),
    ("Ctrl-Z", "back to the shell; fg returns"),
    ("@FILE, !CMD", "a file for the agent to read, a command of your own"),
    ("#TEXT, /COMMAND", "a line for AGENTS.md, a command (/help lists them)"),
    ("?", "these keys"),
)


class OwnCommand(NamedTuple):
    help: str
    run: Callable[[Talk, str], Awaitable[str | None]]
    """Returns what to print, or None."""


async def keys(talk: Talk, args: str) -> str:
    width = max(len(key) for key, _ in KEYS)
    return (
        "\n".join(f"{key:{width}}  {what}" for key, what in KEYS) + "\nChange them in your settings: treadle docs chat"
    )


async def _diff(talk: Talk, args: str) -> str | None:
    shown = await asyncio.to_thread(changes, talk.cwd)
    if not shown:
        return "Nothing is changed since the last commit."
    talk.view.print(talk.page.diff(shown))
    return None


def changes(cwd: str) -> str:
    """All that is not committed as a diff, with new files. No git looks at them: some may be an agent's."""
    from treadle.workspace import checkouts, uncommitted

    shown, left_out = uncommitted.patch(checkouts.around(cwd))
    notes = [f"{path} is too large to show, or cannot be read\n" for path in left_out]
    return "".join([shown.decode(errors="replace"), *notes])


async def _init(talk: Talk, args: str) -> None:
    talk.queued.appendleft(f"{INIT}\n{args}".strip())


async def _review(talk: Talk, args: str) -> None:
    talk.queued.appendleft(f"{REVIEW}\n{args}".strip())


async def _verify(talk: Talk, args: str) -> str:
    return (await talk.verify()).line


async def _mcp(talk: Talk, args: str) -> str:
    states = talk.session.info.mcp_servers
    if not states:
        return "No MCP servers. `treadle docs hooks-and-mcp` says how to add some."
    return "\n".join(f"{name}: {state}" for name, state in sorted(states.items()))


async def _export(talk: Talk, args: str) -> str:
    from treadle.agent.stored_sessions import SessionDocument, as_atif, as_markdown
    from treadle.agent.transcript import Transcript

    if talk.session.info.name != "native":
        raise Unsupported(f"{talk.session.info.name} stores its sessions itself")
    path = os.path.join(talk.cwd, os.path.expanduser(args.strip() or f"{talk.session.id}.md"))
    found = SessionDocument(Transcript.read(talk.session.id), Redactor.of_environment(os.environ))
    ending = os.path.splitext(path)[1]
    if ending == ".json":
        data = as_atif(found)
    elif ending == ".md":
        data = as_markdown(found).encode()
    else:
        raise ConfigError(f"the format of {path} is unknown", hint="end the name in .md or .json")
    if os.path.exists(path):
        raise ConfigError(f"{path} exists already", hint="/export OTHER-NAME")
    write_atomic(path, data)
    return f"The session is in {path}."


async def _copy(talk: Talk, args: str) -> str:
    answer = talk.last_text.encode()
    if not answer:
        return "There is no answer to copy yet."
    if len(answer) > COPIED_MAX:
        raise ConfigError(f"the answer has {len(answer):,} bytes, more than terminals accept", hint="/export FILE.md")
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(answer).decode()}\x1b\\")
    sys.stdout.flush()
    return f"The last answer is in the clipboard ({len(answer):,} bytes), if your terminal allows that (OSC 52)."


async def _theme(talk: Talk, args: str) -> str:
    if args.strip() not in ("light", "dark"):
        return f"The theme is {talk.page.theme}; /theme light or /theme dark changes it, `theme` of [chat] keeps it."
    talk.page.theme = args.strip()
    return f"The theme is now {talk.page.theme}."


async def _vim(talk: Talk, args: str) -> str:
    if talk.view.plain:
        raise Unsupported("plain mode has no editor")
    return f"The input is edited as in {'vim: Esc leaves insert mode' if talk.view.vim() else 'Emacs and readline'}."


COMMANDS: dict[str, OwnCommand] = {
    "keys": OwnCommand("Show what the keys do; ? does the same.", keys),
    "diff": OwnCommand("Show the uncommitted changes, with new files.", _diff),
    "init": OwnCommand("Have the agent write AGENTS.md for this repository.", _init),
    "review": OwnCommand("Have the agent review the uncommitted changes.", _review),
    "verify": OwnCommand("Run the project's check on what was changed; F5 does the same.", _verify),
    "mcp": OwnCommand("List the MCP servers, and whether each is connected.", _mcp),
    "export": OwnCommand("Write the session to a file: FILE.md or .json.", _export),
    "copy": OwnCommand("Copy the last answer to the clipboard of your terminal.", _copy),
    "theme": OwnCommand("Colours for a light or a dark terminal.", _theme),
    "vim": OwnCommand("Edit the input as in vim, or no longer.", _vim),
}
AGENT_HELP = "/agent NAME  Continue with another agent, which gets a summary: /agent codex."


def is_agent(name: str) -> bool:
    """Whether a program or our own agent has this name; a command behind a prefix may have spaces."""
    return bool(name) and (" " not in name or ":" in name) and declared(name) is not None


def help_text() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"/{name:{width}}  {command.help}" for name, command in COMMANDS.items())
    return f"Commands of the chat:\n{rows}\n{AGENT_HELP}\n\n? shows the keys."


# Call a person who looks elsewhere: the bell, a notification of the terminal, the title of its window.

LONG = 10.0
"""The end of a turn is news only if it took at least this many seconds: otherwise the person was watching."""
OSC_777 = ("foot", "rxvt", "urxvt")
"""Terminals, by $TERM, that know OSC 777 and not OSC 9."""
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"


class Attention:
    def __init__(self, ways: Sequence[str], out: TextIO | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._out = out or sys.stdout
        self._ways = frozenset(ways) if self._out.isatty() and env.get("TERM", "dumb") != "dumb" else frozenset()
        self._osc_777 = env.get("TERM", "").startswith(OSC_777)
        self._began = time.monotonic()
        self._working = False
        if "title" in self._ways:
            self._write(SAVE_TITLE)

    def working(self) -> None:
        if not self._working:
            self._working, self._began = True, time.monotonic()
        self._title("working")

    def asked(self, asked: events.Asked) -> None:
        """A question has come up."""
        self._title("waits for you")
        self._call(f"treadle asks: {asked.text}")

    def rested(self) -> None:
        """The turn is over."""
        if not self._working:
            return
        self._working = False
        self._title("done")
        if time.monotonic() - self._began >= LONG:
            self._call("treadle is done")

    def close(self) -> None:
        if "title" in self._ways:
            self._write(RESTORE_TITLE)

    def _call(self, text: str) -> None:
        shown = one_line(text)[:200].replace(";", ",")  # a semicolon would end the text
        if "desktop" in self._ways:
            self._write(f"\x1b]777;notify;treadle;{shown}\x1b\\" if self._osc_777 else f"\x1b]9;{shown}\x1b\\")
        if "bell" in self._ways:
            self._write("\a")

    def _title(self, state: str) -> None:
        if "title" in self._ways:
            self._write(f"\x1b]2;treadle: {state} ({os.path.basename(os.getcwd()) or '/'})\x1b\\")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


# The line under the input: model, mode, how full the context is, tokens, cost, branch.


class Status:
    def __init__(self, session: Session, branch: str = "") -> None:
        self._session = session
        self.branch = branch
        self._totals = Totals()
        self._routed = ""
        self._context = 0

    def follow(self, session: Session) -> None:
        self._session, self._routed, self._context = session, "", 0

    def feed(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.Usage):
            self._totals = self._totals.plus(event)
            if event.parent is None:
                self._context = event.prompt_tokens + event.output_tokens
        elif isinstance(event, events.ModelRouted):
            self._routed = event.model

    def words(self) -> list[str]:
        info = self._session.info
        model = self._routed or ", ".join(info.models) or info.name
        parts = [model, info.mode or "no mode", self._filled(model)]
        if self._totals.calls:
            cost = "?" if self._totals.cost_usd is None else f"{self._totals.cost_usd:.2f}"
            parts += [f"{short(self._totals.total_tokens)} tokens", f"${cost}"]
        return [part for part in [*parts, self.branch] if part]

    def _filled(self, model: str) -> str:
        if not self._context:
            return ""
        size = window(model)
        return f"{self._context * 100 // size} % of context" if size else f"{short(self._context)} in context"


def short(number: int) -> str:
    return str(number) if number < 1000 else f"{number / 1000:.1f}k"


# Tells the supervisor of a chat's terminal what the chat is doing, so that it need not guess from the screen.

PAUSE = 10.0
"""Seconds between reports of the same work: a supervisor believes in work for 30 s when nothing changes."""
MESSAGE_MAX = 200


class Reporter:
    """Writes OSC 7501 reports, which are invisible, and only where a supervisor of ours reads them."""

    def __init__(self, out: TextIO | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._out = out or sys.stdout
        self._heard = STATE_FILE_VARIABLE in env and self._out.isatty()
        self._last = ""

    def say(self, state: str, *, kind: str = "", message: str = "") -> None:
        report = compose(state, app="treadle", kind=kind, message=message[:MESSAGE_MAX])
        if report != self._last:
            self._last = report
            self._write()

    def asked(self, asked: events.Asked) -> None:
        kind = "question" if asked.kind == "question" else "permission"
        self.say("blocked", kind=kind, message=asked.text)

    def event(self, event: events.AnyEvent) -> None:
        """Report what happens in a turn. What happens in its tasks does not count."""
        if event.parent is not None:
            return
        if isinstance(event, events.ToolStarted):
            self.say("working", message=f"{event.name} {brief(event)}")
        elif isinstance(event, events.ToolEnded):
            self.say("working")

    def at_rest(self, waiting: Sequence[events.Asked]) -> None:
        """Report that the turn is over, and what background tasks still ask."""
        if waiting:
            self.asked(waiting[0])
        else:
            self.say("done")

    async def remind(self) -> None:
        """Report again: work that shows nothing for a long time is still work."""
        while True:
            await asyncio.sleep(PAUSE)
            if self._last.startswith("state=working"):
                self._write()

    def _write(self) -> None:
        if self._heard:
            self._out.write(f"\x1b]7501;{self._last}\x1b\\")
            self._out.flush()


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


Hand = Callable[[str], Awaitable[Session]]
"""Ends the session, and opens one of the agent with this name that goes on with what was said."""


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
        self.check = TurnCheck(cwd)
        self._unchecked = TurnSummary()
        """The last turn, with all that was denied since the last check."""
        self.queued: deque[str] = deque()
        """Prompts to send after this turn, as they were typed."""
        self.waiting: list[events.Asked] = []
        """Unanswered questions of background tasks."""
        self.pickers: dict[str, Picker] = {}
        self._ran: list[str] = []
        """Commands that the person ran, with their output; the agent reads them with the next prompt."""
        self._turn: str | None = None
        self._busy: str | None = None
        """The running command, as it was typed."""
        self._own: asyncio.Task[Any] | None = None
        self._leaving = False
        self.gathering = Gathering(Redactor.of_environment(os.environ), root=cwd)
        """What another agent would be told of this conversation."""
        self.agent = session.info.name
        """Its name as a person types it."""
        self.hand: Hand | None = None
        self._more = asyncio.Event()
        self._rest = asyncio.Event()
        self._fresh: asyncio.Queue[events.Asked] = asyncio.Queue()
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
        at = CYCLE.index(now) + 1 if now in CYCLE else 0
        self._start(self._change_mode(CYCLE[at % len(CYCLE)]))

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
            self.gathering.look(events.TurnStarted(prompt=text))
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
                self.view.print(self.page.note("", await keys(self, "")) + "\n")
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
        self.page.progress.begin("a look at the files")
        await self._until_interrupted(self.check.begin(anew=False), "the prompt was not sent")
        self.page.progress.begin()
        self.view.print(self.page.waits())
        self.view.changed()
        prompt = "\n\n".join([*self._ran, text])
        self._ran.clear()
        async with ServedTurn(self.session, left="the person left") as served:
            await served.prompt(Prompt(text=prompt))
            await self._follow(served)

    async def _shell(self, command: str) -> None:
        self.page.progress.begin("your command")
        done = await self._until_interrupted(
            own_command(command, self.cwd, lambda text: self.view.print(printable(text))),
            f"your command was interrupted: {command}",
        )
        if done.code:
            self._complain(f"exit code {done.code}")
        self.view.print("\n")
        self._ran.append(f"I ran a command of my own:\n$ {command}\n{done.report}")

    async def _until_interrupted(self, work: Coroutine[Any, Any, T], interrupted: str) -> T:
        """Do something for the person that Esc ends."""
        self._own = asyncio.create_task(work)
        try:
            await asyncio.wait([self._own])
        finally:
            own, self._own = self._own, None
            own.cancel()
        if own.cancelled():
            raise Cancelled(interrupted)
        found: T = own.result()
        return found

    async def verify(self) -> CheckedEnding:
        """Check what was changed since the last time that it was verified."""
        self.page.progress.begin(self.check.command or "/verify")
        work = self.check.ending(self._unchecked, asked=True)
        ending = await self._until_interrupted(work, "the check was interrupted")
        self._unchecked = TurnSummary()
        if ending.state == "verified":
            with suppress(Cancelled):  # then the next prompt looks again
                await self._until_interrupted(self.check.begin(), "")
        else:
            self._ran.append(f"I ran the project's check: {ending.line}")
        return ending

    def _offer(self, summary: TurnSummary) -> None:
        """Say that what the turn changed, or says, is not checked yet, and how it is."""
        self._unchecked = replace(summary, denials=(*self._unchecked.denials, *summary.denials))
        done = summary.outcome == "completed" and (summary.files or summary.denials or claims_success(summary.text))
        if done and self.check.ready:
            key = "/verify" if self.view.plain else "F5"
            self.view.print(self.page.note("yellow", f"unverified: {key} runs `{self.check.command}`") + "\n")

    def _note(self, text: str) -> None:
        append_lines(f"{self.cwd}/AGENTS.md", [f"- {' '.join(text.split())}".encode()], mode=0o644)
        done = "noted in AGENTS.md, which the agent reads at the start of every turn"
        self.view.print(self.page.note("dim", done) + "\n")

    async def _command(self, name: str, args: str) -> None:
        if name in ("exit", "quit"):
            self._leaving = True
            self.queued.clear()
            return
        if name == "agent" and self.hand is not None and is_agent(args.strip()):
            return await self._hand_over(args.strip(), self.hand)
        if name in COMMANDS:
            if text := await COMMANDS[name].run(self, args):
                self.view.print(self.page.note("", text) + "\n")
            return
        if not args and name in self.pickers:
            chosen = await self.pickers[name]("")
            if chosen is None:
                return
            args = chosen
        async with ServedTurn(self.session, left="the person left") as served:
            result = await self._until_answered(served, name, args)
            if result is not None and result.turn is not None:
                return await self._follow(served)
        if result is None:
            if name == "agent":
                find_card(args.strip(), agent_settings())  # it says which agents there are
            raise NotFound(f"unknown command /{name}", hint="/help lists them")
        if result.ok:
            more = f"\n\n{help_text()}" if name == "help" and not args else ""
            self.view.print(self.page.note("", result.message + more) + "\n")
        else:
            self._complain(result.message or "interrupted")

    async def _hand_over(self, agent: str, hand: Hand) -> None:
        """Another agent goes on with the conversation, in the same files."""
        old = self.agent
        if agent == old:
            raise ConfigError(f"you are already talking to {agent}")
        self.page.progress.begin(f"{agent} to start")
        self.session = await hand(agent)
        self._start(self.watch())
        self.waiting.clear()
        self.status.follow(self.session)
        if self.agent != old:
            words = f"{agent} continues from here. With your next prompt it gets a summary of the work with {old}."
            self.view.print(self.page.note("", words) + "\n")

    async def _until_answered(self, served: ServedTurn, name: str, args: str) -> CommandResult | None:
        """The command's result. While it runs, show what its tasks do and ask their questions."""
        self._busy = f"/{name}"
        self.page.progress.begin(f"/{name}")
        asking = asyncio.create_task(self._put_questions())
        try:
            return await served.command(name, args)
        finally:
            self._busy = None
            self.page.progress.end()
            asking.cancel()
            await asyncio.wait([asking])

    async def _put_questions(self) -> None:
        """Ask the person what comes up while a command runs. A question still open at its end is kept for later."""
        asked: events.Asked | None = None
        try:
            while True:
                asked = await self._fresh.get()
                await self._ask(asked)
                asked = None
        finally:
            self.waiting += [asked] if asked else []
            while not self._fresh.empty():
                self.waiting.append(self._fresh.get_nowait())

    async def _follow(self, served: ServedTurn) -> None:
        self._turn = served.id
        try:
            async for event in served:
                if not event.turn:
                    continue
                self._show(event)
                if isinstance(event, events.Asked) and not await self._ask(event) and event.parent is not None:
                    self._put_aside(event)  # the turn is over, but the task that asks still runs
        finally:
            self._turn = None
        if served.ended is not None:
            self.last_text = served.ended.text
        summary = served.totals.summary()
        self.view.print(self.page.total(summary))
        self._offer(summary)

    def _show(self, event: events.AnyEvent) -> None:
        self.status.feed(event)
        self.gathering.look(event)
        self.reporter.event(event)
        if text := self.page.feed(event):
            self.view.print(text)
        self.view.changed()

    # Beside the turns

    async def watch(self) -> None:
        """Show what happens outside of turns: how background tasks end, and what they ask."""
        async for event in self.session.events(after=-1, observer=True):
            if isinstance(event, events.Answered):
                self.waiting = [asked for asked in self.waiting if asked.request != event.request]
            elif event.turn:
                continue
            elif isinstance(event, events.Asked):
                self._put_aside(event)
            elif self._busy is not None:
                self._show(event)
            elif isinstance(event, events.TaskChanged) and event.task and event.task.status in events.FINISHED:
                news = f"{event.task_id} ({event.task.label}) {event.change}: /agent read {event.task_id}"
                self.view.print(self.page.note("dim", news))

    def _put_aside(self, asked: events.Asked) -> None:
        """Keep a question until the person has time for it; while a command runs, they have time now."""
        if self._busy is not None:
            self._fresh.put_nowait(asked)
            return
        self.waiting.append(asked)
        self._print_waiting(asked)
        if self._turn is None:
            self.reporter.asked(asked)

    def _print_waiting(self, asked: events.Asked) -> None:
        who = asked.parent or "the agent"
        asks = Question(asked, self.cwd).headline
        self.view.print(self.page.note("yellow", f"{who} asks: {asks} (press Enter to answer)"))

    async def _ask(self, asked: events.Asked) -> bool:
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

    async def _gone(self, asked: events.Asked) -> None:
        """Wait until the question is settled in another way: by its deadline, or because the turn ended."""
        async for event in self.session.events(after=asked.seq, observer=True):
            over = isinstance(event, events.TurnEnded) and event.turn == asked.turn
            if over or getattr(event, "request", None) == asked.request:
                return

    def _complain(self, text: str) -> None:
        self.view.print(self.page.note("red", text))
