"""How a terminal is doing.

    treadle status ID [--json]

Five lines: session, pid, idle_ms, alive, state. With --json all that is known, also what it waits for and why we think
so; one that has ended gives its exit record.
"""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, show
from treadle.errors import NotFound


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--json")
    where = place(given, given.exactly(1, "one id")[0])
    try:
        client = connect(where)
    except NotFound:
        return _ended(where.exit, where.id, "--json" in given.flags)
    with client:
        if "--json" in given.flags:
            show(client.detail())
            return 0
        status = client.status()
    sys.stdout.write(
        f"session: {where.id}\n"
        f"pid:     {status.pid}\n"
        f"idle_ms: {status.idle_ms}\n"
        f"alive:   {'true' if status.alive else 'false'}\n"
        f"state:   {status.state_name} ({status.state_ms}ms)\n"
    )
    return 0


def _ended(path: str, name: str, as_json: bool) -> int:
    from treadle.terminal.history import exit_record

    record = exit_record(path)
    if as_json:
        show({**record, "alive": False})
    else:
        why = f": {record['reason']}" if record.get("reason") else ""
        sys.stdout.write(f"session: {name}\nalive:   false\nstate:   dead (code {record['code']}{why})\n")
    return 0
