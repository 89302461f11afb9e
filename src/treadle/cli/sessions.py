"""`treadle sessions` and `git`: stored conversations, and unfinished work in agents' own repositories."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from treadle.agent import stored_sessions
from treadle.agent.stored_sessions import ListedSession, SessionDocument, find_session, list_sessions
from treadle.agent.transcript import Transcript, remove
from treadle.agents import taking_over
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import colourful, one_line, printable
from treadle.errors import Busy, NotFound
from treadle.io import paths
from treadle.io.files import write_atomic
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.redact import Redactor
from treadle.session import SessionSpec, Start

if TYPE_CHECKING:
    from treadle.sandboxed.repositories import Leftover


# `treadle git`: what agents left unfinished in their own git repositories becomes the person's, or is removed.


@click.group("git")
def git_() -> None:
    """Recover unfinished git work from sandboxed sessions.

    A sandboxed agent commits to a private repository; yours is updated after each command or turn. Unfinished merges,
    rebases and bisects stay in the private repository, and so does the last work of a killed session.

    \b
    treadle gc git --dry-run     what there is
    treadle git adopt            recover all sessions' work in this checkout
    treadle git adopt SESSION    recover one session's work
    treadle gc git:SESSION       remove it
    """


@git_.command()
@click.argument("session", required=False)
@json_option
def adopt(session: str | None, as_json: bool) -> None:
    """Copy a session's branches, tags, stashes and unfinished merge into your repository.

    Without SESSION: every session of the current checkout. Files are not changed. HEAD, its branch and the index are
    updated together, and only if they have not moved since the session read them; otherwise the commits go to a branch
    treadle/SESSION and the rest stays. Remaining rebase steps are not copied, because they can run programs.
    """
    from treadle.sandboxed.repositories import hand_over

    done = []
    for left in _asked(session):
        notes, whole = run_async(hand_over(left))
        done.append({"session": left.record.session, "whole": whole, "notes": notes})
        if not as_json:
            for note in notes:
                click.echo(one_line(note))
            name = left.record.session
            partly = f"the rest of {name} is kept: try again, or treadle gc git:{name}"
            click.echo(f"all that {name} left is now in your repository" if whole else partly)
    if as_json:
        show_json(done)
    if not all(one["whole"] for one in done):
        raise SystemExit(1)


def _asked(session: str | None) -> list[Leftover]:
    """What a session left, or all that sessions left here. Raises NotFound if there is nothing."""
    from treadle.sandboxed.repositories import find
    from treadle.workspace.user_repository import UserRepository

    user = UserRepository.around(paths.here()) if session is None else None
    top = user.top if user is not None else ""
    ended, living = find(), find(living=True)
    found = [left for left in ended if session in (None, left.record.session)]
    if session is None:
        found = [left for left in found if os.path.realpath(left.record.top) == top]
    if not found and session in [left.record.session for left in living]:
        raise NotFound(f"session {session} is still running", hint="end the session first")
    if not found:
        what = f"no session {session} has" if session else "no session has"
        where = "" if session else " of this checkout"
        raise NotFound(f"{what} left unfinished git work{where}", hint="treadle gc git --dry-run")
    return found


# `treadle sessions`: the conversations kept on this machine.

here_option = click.option("--here", "only_here", is_flag=True, help="List only sessions of this directory.")


@click.group("sessions", invoke_without_command=True)
@here_option
@json_option
@click.pass_context
def sessions(ctx: click.Context, only_here: bool, as_json: bool) -> None:
    """List, show, export or remove saved sessions. The latest comes first.

    Continue a session by its id, a unique id prefix, or its name: treadle --resume ID. Sessions are stored until you
    remove them.
    """
    if ctx.invoked_subcommand is not None:
        return
    entries = list_sessions(here() if only_here else None, theirs=True)
    if as_json:
        show_json(entries)
        return
    if not entries:
        click.echo("no sessions yet: start one with `treadle`, or `treadle -p PROMPT`")
    for entry in entries:
        click.echo(_line(entry))


def _line(entry: ListedSession) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
    title = entry.name or " ".join(entry.prompt.split())[:60] or "(nothing said)"
    title += f"  {entry.theirs}" if entry.theirs else ""
    ended = f"  ({entry.ending})" if entry.ending not in ("", "completed") else ""
    return printable(f"{entry.id}  {when}  {entry.turns:3} turns  {entry.cwd}  {title}{ended}")


def _document(wanted: str) -> SessionDocument:
    return SessionDocument(Transcript.read(find_session(wanted)), Redactor.of_environment(os.environ))


@sessions.command("show")
@click.argument("wanted", metavar="ID")
@click.option("--tools", is_flag=True, help="Also show the input and output of each tool call.")
@json_option
def show(wanted: str, tools: bool, as_json: bool) -> None:
    """Show a session's messages. ID is its id, a unique id prefix, or its name."""
    document = _document(wanted)
    if as_json:
        return click.echo(stored_sessions.as_atif(document), nl=False)
    text = printable(stored_sessions.as_markdown(document, tools=tools))
    if not colourful(sys.stdout):
        click.echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(highlight=False, emoji=False, markup=False).print(Markdown(text, hyperlinks=False))


@sessions.command("export")
@click.argument("wanted", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "atif", "handover"]),
    help="The format. Default: by the file's name, or markdown.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file instead of standard output.")
def export(wanted: str, form: str | None, output: str | None) -> None:
    """Export a session as Markdown, as ATIF (the trajectory JSON of Harbor and Phoenix), or as the text with which
    another agent takes it over (also of AGENT:ID).

    \b
    treadle sessions export 7c5 -o talk.md
    treadle sessions export 7c5 -o talk.json          # ATIF
    treadle -p "Go on." --resume atif:talk.json       # start a new session from it
    treadle fleet submit "$(treadle sessions export 7c5 --format handover) Go on." --race claude,codex

    The export has the whole conversation, also compacted parts. Known kinds of secrets are removed; read it before you
    share it.
    """
    if form == "handover":
        session = wanted if ":" in wanted else find_session(wanted)
        asked = SessionSpec(cwd=here(), start=Start(resume=session, fork=True))
        data = run_async(taking_over(asked, "")).start.handover.encode("utf-8", "replace")
    elif form == "atif" or form is None and (output or "").lower().endswith(".json"):
        data = stored_sessions.as_atif(_document(wanted))
    else:
        data = stored_sessions.as_markdown(_document(wanted)).encode("utf-8", "replace")
    if output is not None:
        write_atomic(os.path.abspath(output), data)
    else:
        sys.stdout.buffer.write(data)


@sessions.command("rm")
@click.argument("wanted", nargs=-1, required=True, metavar="ID...")
def rm(wanted: tuple[str, ...]) -> None:
    """Delete sessions with their history, undo copies, files removed by the sandbox, and long tool output. To delete by
    age: `treadle gc sessions --older-than 30d`.

    Sessions open in another process are not deleted.
    """
    held = False
    for one in dict.fromkeys(map(find_session, wanted)):
        try:
            remove(one)
            click.echo(f"removed {one}")
        except Busy as error:
            held = True
            click.echo(f"treadle: {error}", err=True)
    sys.exit(held)
