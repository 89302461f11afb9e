"""The command `treadle`: open a session and talk."""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from treadle import __version__
from treadle.cli.options import RunOptions, run_options, take
from treadle.cli.render import colourful, printable
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.io.process.private import hold_secrets

if TYPE_CHECKING:  # `treadle --help` loads this module to list the command, so it must not load what draws the chat
    from treadle.cli.chat.early import Early
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.plain import Lines
    from treadle.cli.chat.progress import Progress
    from treadle.cli.chat.screen import ChatScreen
    from treadle.cli.chat.talk import Talk
    from treadle.session import Session, SessionSpec


@click.command("chat")
@click.argument("prompt", required=False)
@click.option("--plain", is_flag=True, help="Print line by line and redraw nothing, for screen readers.")
@run_options
def chat(prompt: str | None, plain: bool, **values: Any) -> None:
    """Talk with an agent in this directory.

    \b
    Enter sends; while the agent works it adds to what it is doing, and Tab queues for afterwards.
    Alt-Enter or \\ Enter makes a new line, Ctrl-G opens your editor, Ctrl-R searches what you typed before.
    Esc or Ctrl-C interrupts, Ctrl-C twice or Ctrl-D leaves, Ctrl-O shows what was folded.
    /help lists commands, @ completes files, !CMD runs a command of your own, #TEXT goes to AGENTS.md.

    The session is kept: `treadle -c` goes on with it.
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
        from treadle.cli.choosing.choose import settle

        options = await settle(options, talks=True, plain=plain)
    from treadle.cli.chat.early import Early
    from treadle.cli.chat.progress import Progress

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
    return _leave(talking, opened[0] if opened else None, options.agent, killed)


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
    from treadle.cli.chat.attention import Attention
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.status import Status
    from treadle.cli.chat.talk import Talk

    spec = options.spec(answers=True, default_mode="suggest", check_edits=True)
    spec = msgspec.structs.replace(spec, answer_seconds=math.inf)  # a person is there: questions wait for them
    settings = options.settings().chat
    session = await find_agent(options.agent).open(spec)
    page = Page(_columns, colour=colourful(sys.stdout) and not view.plain, flowing=view.plain, progress=progress)
    status = Status(session, await asyncio.to_thread(_branch, spec.cwd))
    page.theme = _theme(settings.theme)
    talk = Talk(session, view, page, status, spec.cwd)
    talk.attention = Attention(() if view.plain else settings.notify)
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
        for task in beside:
            task.cancel()


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
        from treadle.cli.chat.plain import Lines

        return Lines()
    from treadle.cli.chat.completion import ChatCompleter
    from treadle.cli.chat.history import Typed
    from treadle.cli.chat.keys import check_keys
    from treadle.cli.chat.screen import ChatScreen

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
    loop = asyncio.get_running_loop()

    def leave(signum: int) -> None:
        came.append(signum)
        talking.cancel()

    for signum in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, leave, signum)
    if interrupt is not None:
        loop.add_signal_handler(signal.SIGINT, lambda: interrupt() or print("\n(Ctrl-D or /exit leaves)\n> ", end=""))
    return came


def _greeting(session: Session, spec: SessionSpec, page: Page, interrupts: str) -> str:
    from rich.text import Text

    from treadle.cli.chat.last import last_words
    from treadle.cli.notes import opening_notes

    models = ", ".join(session.info.models)
    title = f"treadle {__version__} · {session.info.name} · {models or 'its own model'} · {_at_home(spec.cwd)}"
    parts = [page.draw(Text(printable(title), style="bold"))]
    parts.append(page.note("dim", f"{interrupts} interrupts, Ctrl-D leaves, /help lists commands, ? shows the keys."))
    parts += [page.note("yellow", note) for note in opening_notes(session)]
    if spec.start.resume is not None:
        parts.append(last_words(session.id, page))
    return "".join(parts) + "\n"


def _at_home(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}/") else path


def _leave(talking: asyncio.Task[None], talk: Talk | None, agent: str, killed: list[int]) -> int:
    if talking.cancelled() or killed:
        return 1
    try:
        talking.result()
        assert talk is not None
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
    from treadle.agent.transcript import Transcript, remove
    from treadle.errors import TreadleError

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
