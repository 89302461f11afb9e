"""`treadle gc`: one table of what is stored on this machine and for how long, and its removal."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from treadle.cli.arguments import Arguments
from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import table
from treadle.cli.render import short_time
from treadle.cli.terminal import directory, duration
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.io.descriptors import remove_tree
from treadle.io.files import is_locked, locked, try_remove
from treadle.io.paths import state_dir
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.sandboxed.repositories import GitLeft, Leftover
    from treadle.terminal.places import Place

NEVER = "never"


class Stored(NamedTuple):
    name: str
    at: float
    """When it was last used."""
    paths: tuple[str, ...]
    remove: Callable[[], object]
    work: str = ""
    """What is only here: work that no one has taken over."""
    used: bool = False
    """Whether a process has it open."""


def _sessions() -> Iterator[Stored]:
    from treadle.agent.stored_sessions import list_sessions
    from treadle.agent.transcript import directory_of, remove

    for each in list_sessions(theirs=True):
        place = directory_of(each.id)
        used = is_locked(os.path.join(place, "lock"))
        yield Stored(each.id, each.updated, (place,), partial(remove, each.id), used=used)


ENDINGS = (".exit", ".log", ".log.1", ".out", ".out.1", ".state", ".summary", ".start", ".renamed", ".pid", ".sock")


def _ended_terminals() -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Each with the files that it has left."""
    from treadle.terminal.places import Place

    where = directory(Arguments([]))
    names = os.listdir(where) if os.path.isdir(where) else []
    for base in sorted({name[: -len(ending)] for ending in ENDINGS for name in names if name.endswith(ending)}):
        try:
            place = Place(where, base)
        except TreadleError:
            continue  # not one of ours
        if not is_locked(place.pid):
            yield place, tuple(f"{os.path.join(where, base)}{each}" for each in ENDINGS if f"{base}{each}" in names)


def _terminals() -> Iterator[Stored]:
    from treadle.terminal.worktree import holds_work

    for place, paths in _ended_terminals():
        if not holds_work(place):  # its record leads to the worktree
            at = max(os.path.getmtime(path) for path in paths)
            yield Stored(place.id, at, paths, partial(_remove_files, paths))


def _remove_files(paths: tuple[str, ...]) -> None:
    for path in paths:
        try_remove(path)


def _trees() -> Iterator[Stored]:
    from treadle.terminal import worktree

    for place, paths in _ended_terminals():
        if worktree.holds_work(place):
            at = max(os.path.getmtime(path) for path in paths)
            yield Stored(place.id, at, paths, partial(_discard_tree, place), f"treadle merge {place.id}")


def _discard_tree(place: Place) -> None:
    from treadle.terminal import worktree

    worktree.of(place).discard()


def _runs() -> Iterator[Stored]:
    from treadle.host.conclusion import retained_runs

    for run in retained_runs().values():
        # Of a run that was killed or cut off, the record may be gone while the workspace is there.
        work = f"work on {run.workspace.source}" if run.workspace else "a workspace" if "workspace" in run.files else ""
        at = os.stat(run.directory).st_mtime
        yield Stored(run.run_id, at, (run.directory,), run.discard, "a newer treadle's" if run.newer else work)


def _evidence() -> Iterator[Stored]:
    from treadle.host.evidence import aged

    for at, path in aged():
        yield Stored(os.path.basename(path).partition(".")[0], at, (path,), partial(try_remove, path))


def _recordings() -> Iterator[Stored]:
    from treadle.gateway.recording import place_of, recordings

    for each in recordings():
        place = place_of(each.id)
        yield Stored(each.id, each.at, (place,), partial(remove_tree, place))


def _agent_worktrees() -> Iterator[Stored]:
    from treadle.terminal.lock import base
    from treadle.workspace.in_place import OWNED
    from treadle.workspace.workspace import STORE

    for path in _entries(base()):
        lock = os.path.join(path, OWNED)
        if re.search("-[0-9a-f]{8}$", path):  # those of terminals end with six
            work = "it was killed: a session in its checkout makes a branch of it" if os.path.exists(lock) else ""
            work = work or ("not all of it is in a branch" if os.path.isdir(os.path.join(path, STORE)) else "")
            at = max(os.lstat(top).st_mtime for top, _, _ in os.walk(path))
            yield Stored(
                os.path.basename(path), at, (path,), partial(_discard_agent, path, lock), work, is_locked(lock)
            )


def _discard_agent(path: str, lock: str) -> None:
    from treadle.workspace.workspace import STORE, open_workspace

    with _unused(lock):
        if os.path.isdir(os.path.join(path, STORE)) and (workspace := open_workspace(path)) is not None:
            workspace.forget_base()
        remove_tree(path)


def _tasks() -> Iterator[Stored]:
    from treadle.agent.detached import every

    for group in every():
        at, place = group.group.completed_at or group.plan.created, group.directory
        remove = partial(_remove_unused, place, os.path.join(place, "lock"))
        yield Stored(group.group.id, at, (place,), remove, used=group.alive)


def _removed() -> Iterator[Stored]:
    from treadle.agent.transcript import directory_of

    for path in _entries(os.path.join(state_dir(), "removed")):
        lock = os.path.join(directory_of(os.path.basename(path)), "lock")
        remove, used = partial(_remove_unused, path, lock), is_locked(lock)
        yield Stored(os.path.basename(path), os.stat(path).st_mtime, (path,), remove, used=used)


def _pasted() -> Iterator[Stored]:
    for path in _entries(os.path.join(state_dir(), "pasted")):
        yield Stored(os.path.basename(path), os.stat(path).st_mtime, (path,), partial(try_remove, path))


def _entries(folder: str) -> list[str]:
    return sorted(entry.path for entry in os.scandir(folder)) if os.path.isdir(folder) else []


def _unused(lock: str) -> AbstractContextManager[object]:
    """Raises Busy when a process has what this lock is for; without the file none has."""
    return locked(lock, 0) if os.path.exists(lock) else nullcontext()


def _remove_unused(path: str, lock: str) -> None:
    with _unused(lock):
        remove_tree(path)


def _git() -> Iterator[Stored]:
    from treadle.sandboxed.repositories import find, look

    known = {each.repository: _left(each) for each in run_async(look())} if find() else {}
    for left in find():  # of one session there may be several
        at, work = os.stat(left.directory).st_mtime, known.get(left.private, "not looked at")
        yield Stored(left.record.session, at, (left.directory,), partial(_drop, left), work)


def _drop(left: Leftover) -> None:
    from treadle.sandboxed.repositories import drop

    run_async(drop(left))


def _left(left: GitLeft) -> str:
    found = [f"unfinished: {', '.join(left.unfinished)}"] if left.unfinished else []
    found += [f"files in conflict: {left.conflicts}"] if left.conflicts else []
    found += [f"branches and tags: {', '.join(left.branches)}"] if left.branches else []
    found += [f"stashes: {left.stashes}"] if left.stashes else []
    found += [f"more is not known: {left.problem}"] if left.problem else []
    return "; ".join([*found, f"treadle git adopt {left.session}"]) if found else ""


KINDS: dict[str, tuple[str, Callable[[], Iterator[Stored]], str]] = {
    "sessions": (NEVER, _sessions, "conversations, with undo copies and long tool output"),
    "terminals": ("24h", _terminals, "output, logs and exit records of terminals that have ended"),
    "trees": ("30d", _trees, "worktrees of terminals that have ended (`run --worktree`)"),
    "worktrees": ("30d", _agent_worktrees, "worktrees of agents that work beside others, after they have ended"),
    "tasks": ("30d", _tasks, "background agents that have ended (`--detach`)"),
    "removed": ("30d", _removed, "files that a sandboxed command created where it may not"),
    "pasted": ("30d", _pasted, "images pasted into a chat"),
    "runs": ("30d", _runs, "workspaces, patches and artifacts of runs; receipts stay"),
    "evidence": ("90d", _evidence, "records of checks"),
    "recordings": (NEVER, _recordings, "recorded runs (`-p --record`)"),
    "git": ("30d", _git, "private git directories of sandboxed sessions"),
}
"""What is stored: how long without use, by what it is found, and what it is. Orders have limits of their own, set by
`treadle fleet keep`."""


_TABLE = "\n".join(f"{kind:12} {limit:7} {what}" for kind, (limit, _, what) in KINDS.items())
HELP = f"""Remove stored sessions, terminals, workspaces and recordings that are past their limit.

\b
treadle gc --dry-run                    list everything stored, and what would be removed
treadle gc                              remove everything past its limit
treadle gc sessions --older-than 30d    use another limit for one kind
treadle gc runs:4f3a git:7c5            remove these, whatever their age and content

\b
KIND         LIMIT
{_TABLE}

Work that exists nowhere else is removed only if named or with --with-work. Anything in use stays. For orders, see
`treadle fleet keep`. Exits with 1 if something could not be removed.
"""


@click.command("gc", help=HELP)
@click.argument("wanted", nargs=-1, metavar="[KIND[:NAME]]...")
@click.option("--older-than", metavar="AGE", help="Override the limit of each kind: 90s, 5m, 2h30m, 30d.")
@click.option("--with-work", is_flag=True, help="Also remove work that was not recovered.")
@click.option("--dry-run", is_flag=True, help="List everything stored and what would be removed.")
@click.option("--force", is_flag=True, hidden=True)
@json_option
def gc(
    wanted: tuple[str, ...], older_than: str | None, with_work: bool, dry_run: bool, force: bool, as_json: bool
) -> None:
    removes = force or not dry_run
    rows = [_settled(kind, each, why, removes) for kind, each, why in _judged(wanted, older_than, with_work)]
    rows = [row for row in rows if dry_run or row["state"] != "kept"]
    if as_json:
        show_json(rows)
    else:
        cells = [[str(row[name]) for name in ("state", "kind", "name")] + _measured(row) for row in rows]
        table([["STATE", "KIND", "NAME", "AGE", "SIZE", "WHY"], *cells] if cells else [])
        gone = [row for row in rows if row["state"] in ("removed", "would go")]
        size = sum(row["bytes"] for row in gone) / 1e6
        click.echo(f"{len(gone)} {'removed' if removes else 'would be removed'}, {size:.1f} MB")
    sys.exit(any(row["state"] == "failed" for row in rows))


def _judged(wanted: tuple[str, ...], older_than: str | None, with_work: bool) -> Iterator[tuple[str, Stored, str]]:
    """Each thing that is stored, with why it stays; without a reason it goes."""
    kinds, names = _parsed(wanted)
    age = duration(older_than) if older_than else None
    for kind in kinds:
        limit, find, _ = KINDS[kind]
        seconds = age if age is not None else None if limit == NEVER else duration(limit)
        found = list(find())
        chosen = {_one(kind, name, found) for name in names.get(kind, ())}
        for each in found:
            if chosen:
                yield kind, each, "" if each.name in chosen else "not named"
            elif seconds is None:
                yield kind, each, "no limit: name it, or give --older-than"
            elif each.used:
                yield kind, each, "open in another process"
            elif time.time() - each.at < seconds:
                yield kind, each, f"used within {older_than or limit}"
            else:
                yield kind, each, "" if with_work else each.work


def _parsed(wanted: tuple[str, ...]) -> tuple[list[str], dict[str, list[str]]]:
    names: dict[str, list[str]] = {}
    for word in wanted:
        kind, _, name = word.partition(":")
        if kind not in KINDS:
            raise ConfigError(f"there is no kind {kind!r}", hint=f"the kinds are {', '.join(KINDS)}")
        names.setdefault(kind, []).extend([name] if name else [])
    return [*names] or [*KINDS], names


def _one(kind: str, name: str, found: list[Stored]) -> str:
    known = {each.name for each in found}
    fitting = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(fitting) != 1:
        raise NotFound(
            f"{len(fitting)} of the {kind} that can be removed begin with {name!r}",
            hint=f"`treadle gc {kind} --dry-run` lists them",
        )
    return fitting[0]


def _settled(kind: str, each: Stored, why: str, removes: bool) -> dict[str, Any]:
    """What became of it. One that cannot be removed stands in no other's way."""
    row = {"kind": kind, "name": each.name, "age": round(time.time() - each.at), "bytes": sum(map(_size, each.paths))}
    state = "kept" if why else "removed" if removes else "would go"
    try:
        if state == "removed":
            each.remove()
    except (TreadleError, OSError) as error:
        state, why = "failed", str(error)
    notes = [why, each.work if state != "removed" else ""]
    return {"state": state, **row, "why": "; ".join(dict.fromkeys(filter(None, notes)))}


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.lstat(path).st_size if os.path.lexists(path) else 0
    return sum(os.lstat(os.path.join(top, name)).st_size for top, _, names in os.walk(path) for name in names)


def _measured(row: dict[str, Any]) -> list[str]:
    return [short_time(row["age"]), f"{row['bytes'] / 1e6:.1f} MB", row["why"]]
