"""`treadle git`: what agents left unfinished in their own git repositories becomes the person's, or is removed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import one_line
from treadle.errors import NotFound
from treadle.io import paths
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.agent.leftovers import GitLeft, Leftover


@click.group("git")
def git_() -> None:
    """What sessions left unfinished in their own git repositories: list it, take it over, remove it.

    A confined agent commits in a repository of its own, and yours follows after each command or turn. An unfinished
    merge, rebase or bisect is not taken over, and neither is anything that a killed session did last.

    \b
    treadle git list             what there is
    treadle git adopt            put what sessions left of this checkout into your repository
    treadle git adopt SESSION    the same of one session
    treadle git drop SESSION     remove it
    """


@git_.command("list")
@json_option
def list_(as_json: bool) -> None:
    """What sessions have left, in all checkouts."""
    from treadle.agent.leftovers import look

    found = run_async(look())
    if as_json:
        show_json(found)
    elif not found:
        click.echo("no session has left anything in its own repository")
    for left in found if not as_json else ():
        click.echo(f"{left.session}  {one_line(left.checkout)}")
        for line in _lines(left):
            click.echo(f"    {one_line(line)}")


def _lines(left: GitLeft) -> list[str]:
    found = [f"unfinished: {', '.join(left.unfinished)}"] if left.unfinished else []
    found += [f"files in conflict: {left.conflicts}"] if left.conflicts else []
    found += [f"branches and tags: {', '.join(left.branches)}"] if left.branches else []
    found += [f"stashes: {left.stashes}"] if left.stashes else []
    found += [f"more is not known: {left.problem}"] if left.problem else []
    if left.at_work:
        return [*found, "the session is at work: it can go on with this"]
    return [*(found or ["nothing that you do not have"]), f"treadle git adopt {left.session}"]


@git_.command()
@click.argument("session", required=False)
@json_option
def adopt(session: str | None, as_json: bool) -> None:
    """Put what a session left into your repository: branches, tags, stashes, and an unfinished merge as git shows it.

    Without SESSION: all that sessions left of the checkout that you are in. No file is changed: they are already as the
    agent left them. HEAD, its branch and the index follow together, and only if they are still what the session knew;
    otherwise its commits become a branch treadle/SESSION, and the rest is kept. The steps that remain of a rebase are
    not taken over, because they can name programs.
    """
    from treadle.agent.leftovers import hand_over

    done = []
    for left in _asked(session):
        notes, whole = run_async(hand_over(left))
        done.append({"session": left.record.session, "whole": whole, "notes": notes})
        if not as_json:
            for note in notes:
                click.echo(one_line(note))
            name = left.record.session
            partly = f"the rest of {name} is kept: try again, or treadle git drop {name}"
            click.echo(f"all that {name} left is now in your repository" if whole else partly)
    if as_json:
        show_json(done)
    if not all(one["whole"] for one in done):
        raise SystemExit(1)


@git_.command()
@click.argument("session")
@json_option
def drop(session: str, as_json: bool) -> None:
    """Remove what a session left in its own repository. Your files and your repository are not changed."""
    from treadle.agent.leftovers import drop as drop_left

    removed = []
    for left in _asked(session):
        run_async(drop_left(left))
        removed.append(left.record.session)
    if as_json:
        show_json({"removed": removed})
    else:
        click.echo(f"removed what {session} left")


def _asked(session: str | None) -> list[Leftover]:
    """What a session left, or all that sessions left here. Raises NotFound if there is nothing."""
    from treadle.agent.leftovers import find
    from treadle.workspace.user_repository import UserRepository

    user = UserRepository.around(paths.here()) if session is None else None
    top = user.top if user is not None else ""
    ended, living = find(), find(living=True)
    found = [left for left in ended if session in (None, left.record.session)]
    if session is None:
        found = [left for left in found if os.path.realpath(left.record.top) == top]
    if not found and session in [left.record.session for left in living]:
        raise NotFound(f"session {session} is at work: what it has is the agent's still", hint="end the session first")
    if not found:
        what = f"no session {session} has" if session else "no session has"
        where = "" if session else " of this checkout"
        raise NotFound(f"{what} left anything in its own repository{where}", hint="treadle git list")
    return found
