"""`treadle sessions`: the conversations kept on this machine."""

import os
import sys
import time

import click
import msgspec

from treadle.agent import session_export
from treadle.agent.session_export import SessionDocument
from treadle.agent.session_list import ListedSession, find_session, list_sessions
from treadle.agent.session_search import search
from treadle.agent.transcript import Transcript, remove
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import colourful, printable
from treadle.cli.terminal import duration
from treadle.errors import Busy
from treadle.io.files import write_atomic
from treadle.io.paths import here
from treadle.redact import Redactor

here_option = click.option("--here", "only_here", is_flag=True, help="Only those of this directory.")


@click.group("sessions", invoke_without_command=True)
@here_option
@json_option
@click.pass_context
def sessions(ctx: click.Context, only_here: bool, as_json: bool) -> None:
    """Saved sessions: list them (the latest first), show, search, export, remove.

    Go on with one by its id, a unique beginning of it, or its name: treadle --resume ID. A session is kept until
    someone removes it.
    """
    if ctx.invoked_subcommand is not None:
        return
    entries = list_sessions(here() if only_here else None)
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
    return printable(f"{entry.id}  {when}  {entry.turns:3} turns  {entry.cwd}  {title}")


def _document(wanted: str) -> SessionDocument:
    return SessionDocument(Transcript.read(find_session(wanted)), Redactor.of_environment(os.environ))


@sessions.command("show")
@click.argument("wanted", metavar="ID")
@click.option("--tools", is_flag=True, help="Also what each tool was given and what it answered.")
@json_option
def show(wanted: str, tools: bool, as_json: bool) -> None:
    """Show what was said in a session, by its id, a unique beginning of it, or its name."""
    document = _document(wanted)
    if as_json:
        show_json(session_export.as_json(document))
        return
    text = printable(session_export.as_markdown(document, tools=tools))
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
    type=click.Choice(["markdown", "html", "json"]),
    help="Default: by the file's name, or markdown.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="A file instead of standard output.")
def export(wanted: str, form: str | None, output: str | None) -> None:
    """Write a session as one document: Markdown, HTML that loads nothing, or JSON.

    \b
    treadle sessions export 7c5 -o talk.html

    All that was said is in it, also what the model no longer sees. Secrets that Treadle recognises are taken out; read
    it before you pass it on.
    """
    endings = {".html": "html", ".htm": "html", ".json": "json"}
    form = form or endings.get(os.path.splitext(output or "")[1].lower(), "markdown")
    document = _document(wanted)
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(session_export.as_json(document))).decode() + "\n"
    else:
        text = session_export.as_html(document) if form == "html" else session_export.as_markdown(document)
    data = text.encode("utf-8", "replace")
    if output is not None:
        write_atomic(os.path.abspath(output), data)
    else:
        sys.stdout.buffer.write(data)


@sessions.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--tools", is_flag=True, help="Search what tools answered, too.")
@here_option
@json_option
def find(words: tuple[str, ...], tools: bool, only_here: bool, as_json: bool) -> None:
    """Find sessions in which one message has all of these words, whatever their case.

    Exits with 1 when there is none.
    """
    hits = search(list(words), list_sessions(here() if only_here else None), tools=tools)
    if as_json:
        found = list(hits)
        show_json(found)
        sys.exit(not found)
    none = True
    for hit in hits:
        none = False
        click.echo(_line(hit.session))
        for one in hit.excerpts:
            click.echo(f"    {printable(one)}")
        if hit.count > len(hit.excerpts):
            click.echo(f"    (and {hit.count - len(hit.excerpts)} more)")
    if none:
        click.echo("nothing found", err=True)
    sys.exit(none)


@sessions.command("rm")
@click.argument("wanted", nargs=-1, metavar="[ID]...")
@click.option("--older-than", metavar="AGE", help="All that were not written to for so long: 90s, 5m, 2h30m, 30d.")
@here_option
@click.option("--force", is_flag=True, help="With --older-than: do it. Without: only say what would go.")
@json_option
def rm(wanted: tuple[str, ...], older_than: str | None, only_here: bool, force: bool, as_json: bool) -> None:
    """Remove sessions for good: their history, the files kept for undoing, the long output of tools.

    \b
    treadle sessions rm 7c5
    treadle sessions rm --older-than 30d            # says what would go
    treadle sessions rm --older-than 30d --force    # does it: a line for cron

    One that is open in another process stays.
    """
    if bool(wanted) == (older_than is not None):
        raise click.UsageError("name sessions, or say --older-than AGE")
    if older_than is None:
        chosen = [find_session(one) for one in wanted]
    else:
        before = time.time() - duration(older_than)
        chosen = [entry.id for entry in list_sessions(here() if only_here else None) if entry.updated < before]
    doing = force or older_than is None
    removed, held = [], []
    for one in dict.fromkeys(chosen):
        try:
            if doing:
                remove(one)
            removed.append(one)
        except Busy as error:
            held.append(one)
            click.echo(f"treadle: {error}", err=True)
    if as_json:
        show_json({"removed": removed if doing else [], "would_remove": [] if doing else removed, "open": held})
    else:
        for one in removed:
            click.echo(f"{'removed' if doing else 'would remove'} {one}")
        click.echo(
            f"{len(removed)} session{'' if len(removed) == 1 else 's'}"
            + ("" if doing or not removed else "; say --force to do it")
        )
    sys.exit(bool(held))
