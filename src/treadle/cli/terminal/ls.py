"""List terminals.

    treadle ls [--all] [--json]

Those that run; with --all also those that have ended, with their exit codes. Changes nothing.
"""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, directory, show
from treadle.errors import TreadleError

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
            return {
                "id": place.id,
                "alive": True,
                "pid": status.pid,
                "state": status.state_name,
                "state_ms": status.state_ms,
                "idle_ms": status.idle_ms,
            }
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


def _table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["id"]) for row in rows)
    sys.stdout.write("Active sessions:\n" if all(row["alive"] for row in rows) else "Sessions:\n")
    for row in rows:
        if row["alive"]:
            rest = f"{row['state']:9}  pid {row['pid']}, idle {row['idle_ms'] / 1000:.1f}s"
        else:
            rest = f"{'dead':9}  code {row['code']}{', ' + row['reason'] if row.get('reason') else ''}"
        sys.stdout.write(f"  {row['id']:{width}}  {rest}\n")
