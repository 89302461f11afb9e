"""`treadle clean`."""

import os
import sys
import time

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, directory, duration, show

ENDINGS = (".exit", ".log", ".log.1", ".out", ".out.1", ".state", ".summary", ".renamed", ".pid", ".sock")


CLEAN_HELP = """Remove what terminals that have ended left: logs, output and exit records.

    treadle clean [--older-than DURATION] [--force] [--json]

Only looks unless --force is given. What has work in a worktree of its own is left alone: `treadle merge ID` first.
DURATION is 24h by default; also 90s, 5m, 2h30m, 7d.
"""


def clean_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--older-than {WHERE}", "--force --json")
    given.exactly(0, "no arguments")
    age = duration(given.get("--older-than", "24h"))
    where = directory(given)
    found = list(_old_files(where, time.time() - age))
    total = sum(os.path.getsize(path) for path in found)
    for path in found:
        if "--force" in given.flags:
            os.unlink(path)
        if "--json" not in given.flags:
            sys.stdout.write(f"{'removed' if '--force' in given.flags else 'would remove'} {path}\n")
    if "--json" in given.flags:
        show({"removed": "--force" in given.flags, "files": found, "bytes": total})
    else:
        sys.stdout.write(f"{_sum(found, total, '--force' in given.flags)}\n")
    return 0


def _sum(found: list[str], total: int, done: bool) -> str:
    if not found:
        return "Nothing to clean"
    logs = sum(path.endswith((".log", ".log.1")) for path in found)
    parts = [(logs, "log file"), (len(found) - logs, "other file" if logs else "file")]
    words = " and ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in parts if count)
    return f"Cleaned {words}, {total} bytes" if done else f"Would clean {words}, {total} bytes; say --force to do it"


def _old_files(where: str, before: float) -> list[str]:
    from treadle.io.files import is_locked
    from treadle.terminal.places import Place
    from treadle.terminal.worktree import holds_work

    try:
        names = os.listdir(where)
    except FileNotFoundError:
        return []
    bases = {name[: -len(ending)] for ending in ENDINGS for name in names if name.endswith(ending)}
    found = []
    for base in sorted(bases):
        try:
            place = Place(where, base)
        except Exception:
            continue  # not one of ours
        paths = [f"{os.path.join(where, base)}{ending}" for ending in ENDINGS if f"{base}{ending}" in names]
        old = not is_locked(place.pid) and max(os.path.getmtime(path) for path in paths) < before
        if old and not holds_work(place):
            found += paths
    return found
