"""The command `treadle`: open a session and talk."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec
from prompt_toolkit.history import History

from treadle import __version__
from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.question import diff_of
from treadle.agent.stored_sessions import find_session
from treadle.agent.transcript import Transcript
from treadle.cli.chat.lines import TypedLines
from treadle.cli.chat.page import Page, Prose, trimmed
from treadle.cli.chat.question import Question, confinement_words, touched
from treadle.cli.options import RunOptions, run_options, take
from treadle.cli.render import colourful, printable
from treadle.errors import StorageError, TreadleError
from treadle.io.files import append_lines, read_lines
from treadle.io.paths import at_home, here, private_dir, state_dir
from treadle.io.process.loop import ENDING, hold_secrets, on_signals, run_async
from treadle.redact import Redactor
from treadle.session import Answer, Remembering, Session

if TYPE_CHECKING:
    from treadle.cli.chat.page import Progress
    from treadle.cli.chat.screen import Actions, ChatScreen
    from treadle.cli.chat.talk import Picker, Talk
    from treadle.session import SessionSpec


# Keeps what a person types while the agent is still starting, and passes it on once it has started.


class Early:
    """The `Actions` of a chat whose agent has not started yet."""

    busy = False

    def __init__(self, typed: list[str]) -> None:
        self.typed = typed
        self.gave_up: Callable[[], object] = lambda: None
        """Called when the person leaves before there is anything to talk to."""

    def enter(self, text: str) -> None:
        self.typed.append(text)

    queue = enter

    def unqueue(self) -> str | None:
        return self.typed.pop() if self.typed else None

    def interrupt(self) -> bool:
        return False

    def next_mode(self) -> None:
        """Nothing yet: the mode belongs to a session."""

    def leave(self) -> None:
        self.gave_up()

    quit = leave

    async def rest(self) -> None:
        """Return at once: nothing runs yet."""


# What was typed in earlier chats, in one private file for all. Secrets and answers to questions are left out.

MOST_LINES = 5000


class Typed(History):
    """Newest first, as prompt_toolkit wants them. With a full or read-only disk the chat works without a history."""

    def __init__(self, path: str | None = None, environ: dict[str, str] | None = None) -> None:
        super().__init__()
        self._path = path or os.path.join(private_dir(state_dir()), "typed.jsonl")
        self._redact = Redactor.of_environment(os.environ if environ is None else environ)

    def load_history_strings(self) -> Iterable[str]:
        try:
            lines, _ = read_lines(self._path)
        except OSError:
            return
        for line in reversed(lines[-MOST_LINES:]):
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                yield text

    def store_string(self, string: str) -> None:
        if not string.strip() or self._redact.text(string) != string:
            return
        try:
            append_lines(self._path, [json.dumps(string).encode()])
        except (OSError, StorageError):
            pass


# Shows the end of a session that is resumed.


def last_words(session_id: str, page: Page) -> str:
    """The last prompt and the last answer, ready to print; empty for sessions that another program stores."""
    try:
        messages = Transcript.read(find_session(session_id)).view()
    except TreadleError:
        return ""
    asked = next((one.text for one in reversed(messages) if isinstance(one, UserMessage) and one.text), "")
    answer = next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text), "")
    shown = page.prompt(asked) or f"> {printable(asked)}\n" if asked else ""
    drawn = page.draw(Prose(printable(answer), page.theme))
    return "\n" + shown + (trimmed(drawn) + "\n" if answer else "")


# The same conversation line by line, nothing redrawn: for screen readers and terminals without cursor movement.

WORDS = {"yes": "y", "session": "s", "always": "a", "no": "n", "": "n"}


class Lines:
    """A View that only appends lines, and reads whole lines while nothing runs."""

    actions: Actions
    _page: Page
    glance = 0.0
    plain = True

    def __init__(self) -> None:
        self.typed = TypedLines()
        self.shown = asyncio.Event()
        self.shown.set()
        self._begun = asyncio.Event()

    def connect(self, talk: Talk) -> None:
        self.actions, self._page = talk, talk.page
        self._begun.set()

    def pickers(self, session: Session, cwd: str) -> dict[str, Picker]:
        """Always None: a list to move around in cannot be read out line by line."""
        return {}

    def print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def changed(self) -> None:
        pass

    def vim(self) -> bool:
        return False

    async def ask(self, question: Question) -> Answer:
        asked = question.asked
        diff = "" if asked.command else diff_of(asked, question.cwd)
        shown = "\n  ".join([question.headline, *([question.why] if question.why else [])])
        if asked.command:
            shown += f"\n  {asked.command}\n  in {question.cwd}\n  {touched(asked.command, question.cwd)}"
        elif asked.kind == "permission" and not diff:
            shown += f"\n  {', '.join(asked.paths) or asked.args or ''}"
        if asked.confined is not None:
            shown += f"\n  {confinement_words(asked.confined)[1]}"
        print(printable(shown))
        if diff:
            print(self._page.diff(diff), end="")
            self._page.seen.add(asked.call)
        for number, option in enumerate(asked.options, 1):
            print(f"  {number}. {printable(option)}")
        if question.want == "words":
            return question.enter(await self.typed.line("answer: ")) or Answer(decision="deny")
        always = f" ({', '.join(map(printable, asked.always))})" if asked.always else ""
        choices = f"allow? [y]es, [n]o, for this [s]ession, [a]lways{always}, or say what to do instead: "
        word = (await self.typed.line(choices, fresh=True)).strip()
        key = WORDS.get(word.lower(), word.lower())
        if key == "n":
            return Answer(decision="deny")
        answer = question.press(key) if len(key) == 1 else None
        return answer or Answer(decision="deny", text=word)

    async def run(self) -> None:
        """Read prompts one at a time until the input ends, and end the conversation then."""
        await self._begun.wait()
        try:
            while True:
                await self.actions.rest()
                self.actions.queue(await self.typed.line("\n> "))
        except EOFError:
            self.actions.leave()

    async def close(self) -> None:
        self.typed.close()


@click.command("chat")
@click.argument("prompt", required=False)
@click.option("--plain", is_flag=True, help="Print line by line without redrawing, for screen readers.")
@run_options
def chat(prompt: str | None, plain: bool, **values: Any) -> None:
    """Chat with an agent in this directory.

    \b
    Enter sends. While the agent works, Enter adds to its current turn and Tab queues for the next one.
    Alt-Enter or \\ Enter makes a new line, Ctrl-G opens your editor, Ctrl-R searches the history.
    Esc or Ctrl-C interrupts, Ctrl-C twice or Ctrl-D exits, Ctrl-O expands folded output.
    /help lists commands, @ completes files, !CMD runs a command of your own, #TEXT goes to AGENTS.md.

    The session is saved; `treadle -c` continues it.
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise click.UsageError("a chat needs a terminal; for scripts there is `treadle -p PROMPT`")
    options = take(values)
    simple = plain or os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    hold_secrets()
    sys.exit(run_async(_chat(prompt, options, simple)))


async def _chat(first: str | None, options: RunOptions, plain: bool) -> int:
    """Show the input first, and load what the agent needs while the person begins to type."""
    if not options.chosen():
        from treadle.cli.choice import settle

        options = await settle(options, talks=True, plain=plain)
    from treadle.cli.chat.page import Progress

    progress = Progress()
    view = _view(progress, options, plain)
    view.actions = early = Early([first] if first else [])
    opened: list[Talk] = []
    talking = asyncio.create_task(_converse(view, progress, early, options, opened))
    early.gave_up = talking.cancel
    typing = asyncio.create_task(view.run())
    killed = _signals(talking, (lambda: view.actions.interrupt()) if plain else None)
    try:
        await asyncio.wait([talking])
    finally:
        await view.close()
        if plain:
            typing.cancel()
        await asyncio.wait([typing])
        for one in opened:
            await one.session.close()
    if not opened and talking.cancelled() and not killed:
        return 0  # the person left before the agent had started
    return _leave(talking, opened[0] if opened else None, killed)


async def _converse(
    view: ChatScreen | Lines, progress: Progress, early: Early, options: RunOptions, opened: list[Talk]
) -> None:
    """Start the agent and talk with it until the person leaves."""
    await view.shown.wait()
    progress.begin(f"{options.agent} to start")
    native = ["treadle.agent.native"] if options.agent == "native" else []
    for heavy in ["treadle.cli.chat.talk", "treadle.agents", *native]:
        await asyncio.to_thread(importlib.import_module, heavy)
    from treadle.agents import find_agent
    from treadle.cli.chat.talk import Attention, Status, Talk

    spec = _person_there(options.spec(answers=True, default_mode="suggest"))
    settings = options.settings().chat
    session = await find_agent(options.agent).open(spec)
    past = session.history() if spec.start.resume is not None and isinstance(session, Remembering) else []
    page = Page(_columns, colour=colourful(sys.stdout) and not view.plain, flowing=view.plain, progress=progress)
    status = Status(session, await asyncio.to_thread(_branch, spec.cwd))
    page.theme = _theme(settings.theme)
    talk = Talk(session, view, page, status, spec.cwd)
    talk.attention = Attention(() if view.plain else settings.notify)
    for event in past:
        talk.gathering.look(event)
    denied = getattr(session, "spec", spec).rules.deny  # with what a session that is resumed was denied
    talk.agent, talk.hand = options.agent, partial(_hand, talk, options, denied)
    opened.append(talk)
    progress.end()
    view.print(_greeting(session, spec, page, "Ctrl-C" if view.plain else "Esc"))
    view.connect(talk)
    if options.agent == "native":
        talk.pickers = view.pickers(session, spec.cwd)
    for text in early.typed:
        if view.plain:
            view.print(f"\n> {printable(text)}\n")
        talk.queue(text)
    beside = [asyncio.create_task(talk.watch()), asyncio.create_task(talk.reporter.remind())]
    try:
        await talk.run()
    finally:
        talk.attention.close()
        talk.check.close()
        for task in beside:
            task.cancel()


AFRESH: dict[str, Any] = dict.fromkeys(("resume", "resume_session_at", "session_id", "model"))
AFRESH |= {"continue_last": False, "fork_session": False}
"""The options of the session that was begun with, and that another one has not."""


async def _hand(talk: Talk, options: RunOptions, denied: tuple[str, ...], agent: str) -> Session:
    """End the session and open one of another agent, which is told of it. If that does not start, the first goes on.
    What the person has forbidden stays forbidden."""
    from treadle.agents import find_agent
    from treadle.policy.rules import stricter

    def start(name: str, handover: str = "", **how: Any) -> SessionSpec:
        asked = msgspec.structs.replace(options, agent=name, **{**AFRESH, **how})
        spec = _person_there(asked.spec(answers=True, default_mode="suggest"), handover)
        rules = msgspec.structs.replace(spec.rules, deny=denied)
        return msgspec.structs.replace(spec, mode=stricter(spec.mode, old.info.mode), rules=rules)

    old, first, other = talk.session, find_agent(talk.agent), find_agent(agent)
    await other.probe()
    handover = talk.gathering.handover(talk.agent).prompt()
    model = options.model if talk.agent == options.agent else None
    after, again = start(agent, handover), start(talk.agent, resume=old.id, model=model)
    await old.close()  # first: from here on it writes nothing
    try:
        opened = await other.open(after)
        talk.agent = agent
        return opened
    except TreadleError as error:
        talk.view.print(talk.page.note("red", f"{agent} does not start, so {talk.agent} stays: {error}"))
    try:
        return await first.open(again)
    except TreadleError:  # it cannot resume: it is told as the other would have been
        return await first.open(start(talk.agent, handover, model=model))


def _person_there(spec: SessionSpec, handover: str = "") -> SessionSpec:
    """A person is there: questions wait for them."""
    start = msgspec.structs.replace(spec.start, handover=handover)
    return msgspec.structs.replace(spec, answer_seconds=math.inf, start=start)


def _theme(wanted: str) -> str:
    """Light or dark; `auto` is what the terminal says, and dark when it says nothing."""
    if wanted != "auto":
        return wanted
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _view(progress: Progress, options: RunOptions, plain: bool) -> ChatScreen | Lines:
    if plain:
        return Lines()
    from treadle.cli.chat.screen import ChatCompleter, ChatScreen, check_keys

    settings = options.settings().chat
    check_keys(settings.keys)
    starting = f"starting {options.agent}" if options.agent != "native" else "starting"
    return ChatScreen(
        progress,
        history=Typed(),
        completer=ChatCompleter(here()),
        status=lambda: [starting],
        colour=colourful(sys.stdout),
        settings=settings,
    )


def _signals(talking: asyncio.Task[None], interrupt: Callable[[], bool] | None) -> list[int]:
    """Close the session and restore the terminal on a signal. The yielded list holds that signal, if one came."""
    came: list[int] = []

    def leave(signum: int) -> None:
        came.append(signum)
        talking.cancel()

    on_signals(leave, ENDING[1:])
    if interrupt is not None:
        on_signals(lambda _: interrupt() or print("\n(Ctrl-D or /exit leaves)\n> ", end=""), (signal.SIGINT,))
    return came


def _greeting(session: Session, spec: SessionSpec, page: Page, interrupts: str) -> str:
    from rich.text import Text

    from treadle.cli.options import opening_notes

    models = ", ".join(session.info.models)
    title = f"treadle {__version__} · {session.info.name} · {models or 'its own model'} · {at_home(spec.cwd)}"
    parts = [page.draw(Text(printable(title), style="bold"))]
    parts.append(page.note("dim", f"{interrupts} interrupts, Ctrl-D leaves, /help lists commands, ? shows the keys."))
    parts += [page.note("yellow", note) for note in opening_notes(session)]
    if spec.start.resume is not None:
        parts.append(last_words(session.id, page))
    return "".join(parts) + "\n"


def _leave(talking: asyncio.Task[None], talk: Talk | None, killed: list[int]) -> int:
    if talking.cancelled() or killed:
        return 128 + killed[0] if killed else 1
    try:
        talking.result()
        assert talk is not None
        agent = talk.agent
        talk.reporter.say("clear")
        if agent == "native" and _forgotten(talk.session.id):
            return 0
        with_agent = "" if agent == "native" else f" --agent {shlex.quote(agent)}"
        print(f"\nsession {talk.session.id} is kept: treadle{with_agent} --resume {talk.session.id}")
    except OSError:  # the terminal is gone
        return 1
    return 0


def _forgotten(session: str) -> bool:
    """Remove a session in which nothing was said: there is nothing to continue."""
    from treadle.agent.transcript import remove

    try:
        found = Transcript.read(session)
        if found.listing.turns or found.name:
            return False
        remove(session)
    except TreadleError:
        return False
    return True


def _branch(cwd: str) -> str:
    from treadle.workspace.user_repository import UserRepository

    found = UserRepository.around(cwd or here())
    head = found.head() if found is not None else ""
    return head.removeprefix("refs/heads/") if head.startswith("refs/heads/") else ""
