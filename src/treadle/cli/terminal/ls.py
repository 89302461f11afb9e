"""`treadle ls`."""

import os
import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, directory, show, warn
from treadle.light import Any
from treadle.terminal.listing import rows
from treadle.terminal.places import stale

WATCH_PAUSE = 1.0
LEFT = "left by a dead supervisor, `treadle ls --repair` removes it"


LS_HELP = """List terminals.

    treadle ls [--all] [--json] [--watch] [--repair]

Those that run, with their state, since when, where, how many texts are queued, what they run, and what they ask or
said last; with --all also those that have ended, with their exit codes. --watch shows it again and again, until Ctrl-C.
The socket of a dead supervisor is named. --repair removes it, and has a supervisor whose socket or directory was
removed make it again at once, rather than within three seconds; nothing else is changed.
"""


def ls_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--all --json --watch --repair")
    given.exactly(0, "no arguments")
    where = directory(given)
    if "--watch" in given.flags:
        return _watch(where, "--all" in given.flags)
    left = _repair(where) if "--repair" in given.flags else [f"{path}: {LEFT}" for path in stale(where)]
    found = [row for row in rows(where) if row["alive"] or "--all" in given.flags]
    if "--json" in given.flags:
        show(found)
    elif not os.path.isdir(where):
        sys.stdout.write(f"No sessions yet: there is no {where}\n")
    elif not found:
        sys.stdout.write("No active sessions\n")
    else:
        _table(found)
    if left:
        warn("\n".join(f"treadle: {line}" for line in left))
    return 0


def _repair(where: str) -> list[str]:
    from treadle.terminal.repair import repair

    return repair(where)


def _watch(where: str, everything: bool) -> int:
    """On a terminal, redraw the list in place; in a pipe, print one below the other."""
    import time

    before = None
    while True:
        found = [row for row in rows(where) if row["alive"] or everything]
        seen = [(row["id"], row["state"], row.get("message")) for row in found]
        if seen != before or sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[J" if sys.stdout.isatty() else "")
            _table(found) if found else sys.stdout.write("No active sessions\n")
            sys.stdout.flush()
            before = seen
        time.sleep(WATCH_PAUSE)


def _table(found: list[dict[str, Any]]) -> None:
    width = max(len(row["id"]) for row in found)
    sys.stdout.write("Active sessions:\n" if all(row["alive"] for row in found) else "Sessions:\n")
    for row in found:
        sys.stdout.write(f"  {row['id']:{width}}  {words(row)}\n")


def words(row: dict[str, Any]) -> str:
    if not row["alive"]:
        return f"{'dead':10}  code {row['code']}{', ' + row['reason'] if row.get('reason') else ''}"
    if row["idle_ms"] is None:
        return f"{row['state']:10}  pid {row['pid']}, {row['reason']}"
    command = " ".join(row.get("command") or [])
    about = row.get("message") or row.get("last_line") or ""
    queued = sum(prompt["stage"] == "queued" for prompt in row.get("prompts") or ())
    parts = [
        f"{row['state']:10}  {span(row['state_ms']):>6}",
        f"pid {row['pid']}",
        shortened(row.get("workdir") or ""),
        f"{queued} queued" if queued else "",
        command if len(command) <= 40 else f"{command[:39]}…",
        about if len(about) <= 60 else f"{about[:59]}…",
    ]
    return "  ".join(part for part in parts if part)


def span(milliseconds: int) -> str:
    """A time span in its largest unit, as people say it."""
    seconds = milliseconds // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def shortened(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
