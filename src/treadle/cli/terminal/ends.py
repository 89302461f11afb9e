"""`treadle kill`, `clean`, `diff` and `merge`: end a terminal, and take over or remove what it leaves."""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments, UsageError, small
from treadle.cli.terminal import WHERE, connect, directory, place, show, warn
from treadle.errors import LocalError, NotFound, PeerExited, PeerStalled
from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.terminal.places import Place
    from treadle.workspace.workspace import Workspace


# `treadle kill`.

SUPERVISOR, REAPER = "treadle-termina", "treadle-reaper"  # the kernel keeps only 15 bytes of a name


KILL_HELP = """End a terminal and all its processes, and list them.

    treadle kill ID... [--grace SECONDS] [--json]
    treadle kill --all

Sends SIGTERM to all processes of the terminal, SIGHUP to those that ignore it (such as interactive shells), and SIGKILL
after the grace period (default: 5). Exits with 1 if a process may be left.
"""


@small(KILL_HELP, f"--grace {WHERE}", "--json --all", words="terminals")
def kill_command(given: Arguments) -> int:
    grace = given.number("--grace", 5.0)
    if "--all" in given.flags:
        from treadle.terminal.listing import rows

        given.exactly(0, "no ids together with --all")
        names = [row["id"] for row in rows(directory(given)) if row["alive"]]
    elif not given.rest:
        raise UsageError("expected an id")
    else:
        names = given.rest
    places = [place(given, name) for name in names]
    reports = {where.id: _end(where, grace) for where in places}
    if "--json" in given.flags:
        show(reports if "--all" in given.flags or len(places) > 1 else reports[places[0].id])
    else:
        for name, report in reports.items():
            _tell(name, report)
    return 1 if any(report["survivors"] or report["unseen"] for report in reports.values()) else 0


def _end(where: Place, grace: float) -> dict[str, Any]:
    if _is_stopped(where):  # it is stopped and cannot answer
        return _from_outside(where, grace)
    try:
        with connect(where, timeout=5.0) as client:
            report = client.stop(grace)
            return {"unseen": False, **report}
    except (PeerStalled, PeerExited):
        return _from_outside(where, grace)
    except NotFound:
        if not os.path.exists(where.pid) or os.path.exists(where.exit):
            raise
        return _kill_orphans(where, grace)


def _is_stopped(where: Place) -> bool:
    from treadle.io.process import table

    found = table.look(where.pids()[0])
    return found is not None and found.name == SUPERVISOR and found.state in "Tt"


def _tell(name: str, report: dict[str, Any]) -> None:
    with_code = "" if report["code"] is None else f" with code {report['code']}"
    sys.stdout.write(f"{name} ended{with_code}\n")
    for entry in report["ended"]:
        sys.stdout.write(f"  {entry['by']:8} {entry['pid']} {entry['name']}\n")
    if report["unseen"]:
        why = "all that watched it was killed" if report.get("lost") else "its supervisor adopts nothing"
        warn(f"  unknown whether {name} left processes behind: {why}")
    for entry in report["survivors"]:
        warn(f"  still there: {entry['pid']} {entry['name']}")


def _kill_orphans(where: Place, grace: float) -> dict[str, Any]:
    """Supervisor and reaper were killed at the same moment. The processes are found by a variable in their environment:
    their pids may belong to others by now."""
    from treadle.io.files import try_remove
    from treadle.io.process import registry, table
    from treadle.terminal.settings import STATE_FILE_VARIABLE

    entry = f"{STATE_FILE_VARIABLE}={where.state}"

    def find() -> list[table.Process]:
        every = table.processes()
        found = {one.pid: one for one in every if one.state not in "ZX" and table.environment_has(one.pid, entry)}
        return [*({each.pid: each for pid in found for each in table.descendants(pid, every)} | found).values()]

    ended, left = registry.end(find, grace)
    try_remove(where.start)  # a person ended it
    return {"code": None, "ended": _named(ended), "survivors": _left(left), "unseen": True, "lost": True}


def _named(ended: list[tuple[int, str, int]]) -> list[dict[str, Any]]:
    from signal import Signals

    return [{"pid": pid, "name": name, "by": Signals(by).name} for pid, name, by in ended]


def _left(left: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"pid": pid, "name": name} for pid, name in left]


def _from_outside(where: Place, grace: float) -> dict[str, Any]:
    """For a supervisor without our additions, or one that does not answer: take the same steps from here."""
    from treadle.io.process import registry, table
    from treadle.terminal.history import exit_record
    from treadle.terminal.settings import STATE_FILE_VARIABLE

    supervisor, child = where.pids()
    if child <= 1:
        raise PeerStalled(f"the supervisor of {where.id} does not answer, and {where.pid} does not name its program")
    found = table.look(supervisor) if supervisor > 1 else None
    adopts = found is not None and found.name == SUPERVISOR
    entry = f"{STATE_FILE_VARIABLE}={where.state}"

    def find() -> list[table.Process]:
        if adopts:
            return [each for each in table.descendants(supervisor) if each.name != REAPER]
        return registry.related(child, entry, apart=supervisor)

    ended, left = registry.end(find, grace)
    try:
        code = exit_record(where.exit).get("code")
    except Exception:
        code = None
    return {
        "code": code,
        "ended": _named(ended),
        "survivors": _left(left),
        "unseen": not adopts,  # what leaves the tree becomes a child of the supervisor, if that is one of ours
    }


# `treadle diff`.

DIFF_HELP = """Show the changes made in a terminal's worktree (`run --worktree`).

    treadle diff ID [--stat | --json]

Prints a patch against the starting commit, without ignored files. Works during and after the program's run.

  --stat   list only the changed files
"""


@small(DIFF_HELP, WHERE, "--stat --json", words="terminals")
def diff_command(given: Arguments) -> int:
    (name,) = given.exactly(1, "one id")
    from treadle.cli.render import colourful, printable
    from treadle.terminal import worktree

    found = worktree.of(place(given, name)).difference()
    if found.unread:
        warn(f"treadle: not all of it could be read: {found.unread}")
    if "--json" in given.flags:
        changes = [{"kind": each.kind, "path": each.path, "old_path": each.old_path} for each in found.changes]
        show({"changes": changes, "patch": found.patch.decode(errors="replace")})
    elif "--stat" in given.flags:
        sys.stdout.write("".join(f"{line}\n" for line in printable(found.status).splitlines()))
    elif colourful(sys.stdout):
        sys.stdout.write("".join(map(_coloured, printable(found.patch.decode(errors="replace")).splitlines(True))))
    else:
        sys.stdout.buffer.write(found.patch)
    return 0


def _coloured(line: str) -> str:
    head = line.startswith(("diff ", "index ", "--- ", "+++ "))
    colour = "1" if head else {"+": "32", "-": "31", "@": "36"}.get(line[:1], "")
    return f"\x1b[{colour}m{line.rstrip(chr(10))}\x1b[0m\n" if colour else line


# `treadle merge`.

MERGE_HELP = """Copy the changes from a terminal's worktree into your directory.

    treadle merge ID [--branch | --discard] [--anyway] [--json]

Applies all changes, uncommitted, to the directory of `run --worktree`, or none if they conflict with yours. The
worktree is removed once the program has ended and everything is copied.

  --branch    create a branch treadle/NAME with the program's commits and changes instead; the directory is not changed
  --discard   delete the worktree and everything in it; only after the program has ended
  --anyway    also change files that control other programs: CI, hooks, AGENTS.md

Exit codes: 0 done, or no changes. 1 conflicts, or another failure.
"""


@small(MERGE_HELP, WHERE, "--branch --discard --anyway --json", words="terminals")
def merge_command(given: Arguments) -> int:
    (name,) = given.exactly(1, "one id")
    if {"--branch", "--discard"} <= given.flags:
        raise UsageError("--branch and --discard cannot be combined")
    from treadle.terminal import worktree

    where = place(given, name)
    workspace, as_json = worktree.of(where), "--json" in given.flags
    if "--discard" in given.flags:
        if worktree.runs(where):
            raise LocalError(f"{where.id} still runs in its worktree", hint=f"`treadle kill {where.id}` ends it")
        workspace.discard()
        return _report(as_json, "discarded", workspace.top, [])
    if "--branch" in given.flags:
        return _branch(where, workspace, as_json)
    return _apply(where, workspace, "--anyway" in given.flags, as_json)


def _apply(where: Place, workspace: Workspace, anyway: bool, as_json: bool) -> int:
    from treadle.terminal import worktree

    plan = workspace.plan(anyway=anyway)
    done = workspace.apply(plan)
    source = workspace.place.source
    if done.conflicts:
        for each in done.conflicts:
            warn(f"treadle: {each.path}: {each.reason}")
        warn(f"  nothing in {source} was changed; commit or revert your own changes, or use --branch")
        return 1
    changed = [each.path for each in workspace.difference().changes]
    if not worktree.runs(where):
        left = workspace.release(applied=True)
        if left:
            warn(f"treadle: {left} is kept: it has commits of its own (--branch keeps them, --discard deletes it)")
    return _report(as_json, "merged", source, changed)


def _branch(where: Place, workspace: Workspace, as_json: bool) -> int:

    from treadle.io.process.loop import run_async
    from treadle.sandboxed.repositories import bundle_of

    agent = None
    if workspace.has_committed():
        start, lenders = str(workspace.place.start), workspace.store.lenders
        agent = workspace.take_commits(run_async(bundle_of(workspace.top, start, lenders)))
    commit = workspace.publish(f"{where.id}: what was left in its worktree", agent)
    if commit is None:
        return _report(as_json, "unchanged", "", [])
    return _report(as_json, "branch", str(workspace.place.branch), [])


WORDS = {
    "discarded": "the worktree {place} is gone",
    "merged": "{count} changed files are in {place} now",
    "unchanged": "nothing was changed",
    "branch": "the branch {place} has it",
}


def _report(as_json: bool, outcome: str, where: str, changed: list[str]) -> int:
    if as_json:
        show({"outcome": outcome, "place": where, "changed": changed})
    elif outcome == "merged" and not changed:
        sys.stdout.write("nothing was changed\n")
    else:
        sys.stdout.write(f"{WORDS[outcome].format(place=where, count=len(changed))}\n")
    return 0
