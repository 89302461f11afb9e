"""The command `treadle`: open a session and talk."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from treadle import __version__
from treadle.agents import find_agent
from treadle.cli.chat.last import last_words
from treadle.cli.notes import opening_notes
from treadle.cli.options import RunOptions, run_options, take
from treadle.cli.render import colourful, printable
from treadle.io.paths import here
from treadle.io.process.private import hold_secrets
from treadle.io.process.programs import run_program
from treadle.session import Session, SessionSpec

if TYPE_CHECKING:  # `treadle --help` lists this command: it must not load what draws the chat
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.plain import Lines
    from treadle.cli.chat.screen import Screen
    from treadle.cli.chat.status import Status
    from treadle.cli.chat.talk import Talk


@click.command("chat")
@click.argument("prompt", required=False)
@click.option("--plain", is_flag=True, help="Line by line, nothing drawn twice, as screen readers want it.")
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
    sys.exit(asyncio.run(_chat(prompt, options, simple)))


async def _chat(first: str | None, options: RunOptions, plain: bool) -> int:
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.status import Status
    from treadle.cli.chat.talk import Talk

    spec = options.spec(answers=True, default_mode="suggest")
    session = await find_agent(options.agent).open(spec)
    page = Page(lambda: shutil.get_terminal_size().columns, colour=colourful(sys.stdout), flowing=plain)
    status = Status(session, _branch(spec.cwd))
    view = _view(page, session, status, spec, plain)
    talk = Talk(session, view, page, status, spec.cwd)
    _connect(view, talk, options.agent)
    _greet(session, spec, page.draw)
    talking = asyncio.create_task(talk.run(first))
    typing = asyncio.create_task(view.run())
    beside = [asyncio.create_task(talk.watch()), asyncio.create_task(talk.reporter.remind()), typing]
    killed = _signals(talking, talk.interrupt if plain else None)
    try:
        await asyncio.wait([talking])
    finally:
        await view.close()
        if not plain:
            await asyncio.wait([typing])
        for task in beside:
            task.cancel()
        await session.close()
    return _leave(talking, talk, options.agent, killed)


def _view(page: Page, session: Session, status: Status, spec: SessionSpec, plain: bool) -> Screen | Lines:
    if plain:
        from treadle.cli.chat.plain import Lines

        return Lines(page)
    from treadle.cli.chat.completion import ChatCompleter
    from treadle.cli.chat.history import Typed
    from treadle.cli.chat.screen import Screen

    completer = ChatCompleter(session.commands, spec.cwd)
    colour = colourful(sys.stdout)
    return Screen(page, history=Typed(), completer=completer, status=status.words, colour=colour)


def _connect(view: Screen | Lines, talk: Talk, agent: str) -> None:
    from treadle.cli.chat.pickers import pickers
    from treadle.cli.chat.screen import Screen

    view.actions = talk
    if isinstance(view, Screen):
        view.queued = lambda: list(talk.queued)
        if agent == "native":
            talk.pickers = pickers(talk.session, view.choose, talk.cwd)


def _signals(talking: asyncio.Task[None], interrupt: Callable[[], bool] | None) -> list[int]:
    """A signal to leave closes the session and gives the terminal back. The list has the signal that came, if any."""
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


def _greet(session: Session, spec: SessionSpec, draw: Callable[..., str]) -> None:
    from rich.text import Text

    models = ", ".join(session.info.models)
    title = f"treadle {__version__} · {session.info.name} · {models or 'its own model'}"
    sys.stdout.write(draw(Text(printable(title), style="bold")))
    sys.stdout.write(draw(Text("Esc interrupts, Ctrl-D leaves, /help lists commands.", style="dim")))
    for note in opening_notes(session):
        print(printable(note), file=sys.stderr)
    if spec.start.resume is not None:
        sys.stdout.write(last_words(session.id, draw))
    sys.stdout.flush()


def _leave(talking: asyncio.Task[None], talk: Talk, agent: str, killed: list[int]) -> int:
    if talking.cancelled() or killed:
        return 1
    try:
        talking.result()
        talk.reporter.say("clear")
        with_agent = "" if agent == "native" else f" --agent {shlex.quote(agent)}"
        print(f"\nsession {talk.session.id} is kept: treadle{with_agent} --resume {talk.session.id}")
    except OSError:  # the terminal is gone
        return 1
    return 0


def _branch(cwd: str) -> str:
    found = run_program(["git", "symbolic-ref", "--short", "-q", "HEAD"], cwd=cwd or here(), timeout=5)
    return found.stdout.decode("utf-8", "replace").strip()
