"""List terminals.

    treadle ls [--all] [--json]

Those that run; with --all also those that have ended, with their exit codes. Changes nothing.
"""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, directory, show
from treadle.errors import PeerStalled, TreadleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--all --json")
    given.exactly(0, "no arguments")
    where = directory(given)
    found = [row for row in _rows(where) if row["alive"] or "--all" in given.flags]
    if "--json" in given.flags:
        show(found)
    elif not os.path.isdir(where):
        sys.stdout.write(f"No sessions yet: there is no {where}\n")
    elif not found:
        sys.stdout.write("No active sessions\n")
    else:
        _table(found)
    return 0


def _rows(where: str) -> list[dict[str, Any]]:
    from treadle.terminal.places import Place, ids

    return [_row(Place(where, name)) for name in ids(where)]


def _row(place: Any) -> dict[str, Any]:
    from treadle.terminal.client import Client
    from treadle.terminal.history import exit_record

    try:
        with Client(place.sock, timeout=2) as client:
            status = client.status()
        if status.alive:
            return _living(place.id, status.pid, status.state_name, status.state_ms, status.idle_ms)
    except PeerStalled:
        return _living(place.id, place.pids()[1] or None, "unknown", None, None)
    except TreadleError:
        pass
    try:
        record = exit_record(place.exit)
    except TreadleError:
        record = {"code": None, "reason": "its supervisor left no exit record"}
    return {
        "id": place.id,
        "alive": False,
        "state": "dead",
        **{key: record.get(key) for key in ("code", "reason", "ended")},
    }


def _living(name: str, pid: int | None, state: str, state_ms: int | None, idle_ms: int | None) -> dict[str, Any]:
    return {"id": name, "alive": True, "pid": pid, "state": state, "state_ms": state_ms, "idle_ms": idle_ms}


def _table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["id"]) for row in rows)
    sys.stdout.write("Active sessions:\n" if all(row["alive"] for row in rows) else "Sessions:\n")
    for row in rows:
        if row["alive"]:
            idle = row["idle_ms"]
            last = "its supervisor does not answer" if idle is None else f"idle {idle / 1000:.1f}s"
            rest = f"{row['state']:9}  pid {row['pid']}, {last}"
        else:
            rest = f"{'dead':9}  code {row['code']}{', ' + row['reason'] if row.get('reason') else ''}"
        sys.stdout.write(f"  {row['id']:{width}}  {rest}\n")
