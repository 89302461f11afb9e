"""`treadle kill`."""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, connect, directory, place, show, warn
from treadle.errors import NotFound, PeerExited, PeerStalled
from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.terminal.places import Place

SUPERVISOR, REAPER = "treadle-termina", "treadle-reaper"  # the kernel keeps only 15 bytes of a name


KILL_HELP = """End a terminal's program and all that belongs to it, and say what died.

    treadle kill ID... [--grace SECONDS] [--json]
    treadle kill --all

SIGTERM to everything in the terminal; SIGHUP to what ignores it, as interactive shells do; SIGKILL after the grace (5).
Exit code 1 when something is left, or when it cannot be told whether something is.
"""


def kill_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--grace {WHERE}", "--json --all")
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
        warn(f"  it cannot be told whether {name} left something behind: {why}")
    for entry in report["survivors"]:
        warn(f"  still there: {entry['pid']} {entry['name']}")


def _kill_orphans(where: Place, grace: float) -> dict[str, Any]:
    """Supervisor and reaper were killed at the same moment. The processes are found by a variable in their environment:
    their pids may belong to others by now."""
    from treadle.io.process import strays, table
    from treadle.terminal.settings import STATE_FILE_VARIABLE

    entry = f"{STATE_FILE_VARIABLE}={where.state}"

    def find() -> list[table.Process]:
        every = table.processes()
        found = {one.pid: one for one in every if one.state not in "ZX" and table.environment_has(one.pid, entry)}
        return [*({each.pid: each for pid in found for each in table.descendants(pid, every)} | found).values()]

    ended, left = strays.end(find, grace)
    return {"code": None, "ended": _named(ended), "survivors": _left(left), "unseen": True, "lost": True}


def _named(ended: list[tuple[int, str, int]]) -> list[dict[str, Any]]:
    from signal import Signals

    return [{"pid": pid, "name": name, "by": Signals(by).name} for pid, name, by in ended]


def _left(left: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"pid": pid, "name": name} for pid, name in left]


def _from_outside(where: Place, grace: float) -> dict[str, Any]:
    """For a supervisor without our additions, or one that does not answer: take the same steps from here."""
    from treadle.io.process import strays, table
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
        return strays.related(child, entry, apart=supervisor)

    ended, left = strays.end(find, grace)
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
