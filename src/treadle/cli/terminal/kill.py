"""End a terminal's program and all that belongs to it, and say what died.

    treadle kill ID [--grace SECONDS] [--json]

SIGTERM to everything in the terminal; SIGHUP to what ignores it, as interactive shells do; SIGKILL after the grace (5).
"""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, show, warn
from treadle.errors import PeerExited, PeerStalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.places import Place


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--grace {WHERE}", "--json")
    where = place(given, given.exactly(1, "one id")[0])
    grace = given.number("--grace", 5.0)
    try:
        with connect(where, timeout=5.0) as client:
            report = client.stop(grace)
    except (PeerStalled, PeerExited):
        report = _from_outside(where, grace)
    if "--json" in given.flags:
        show(report)
    else:
        _tell(where.id, report)
    return 1 if report["survivors"] else 0


def _tell(name: str, report: dict[str, Any]) -> None:
    with_code = "" if report["code"] is None else f" with code {report['code']}"
    sys.stdout.write(f"{name} ended{with_code}\n")
    for entry in report["ended"]:
        sys.stdout.write(f"  {entry['by']:8} {entry['pid']} {entry['name']}\n")
    for entry in report["survivors"]:
        warn(f"  still there: {entry['pid']} {entry['name']}")


def _from_outside(where: Place, grace: float) -> dict[str, Any]:
    """For a supervisor without our additions, or one that does not answer: the same steps from here."""
    import time

    from treadle.terminal.ending import Ending
    from treadle.terminal.history import exit_record

    child = where.pids()[1]
    if child <= 1:
        raise PeerStalled(f"the supervisor of {where.id} does not answer, and {where.pid} does not name its program")
    ending = Ending(child, 0, grace, time.monotonic())
    while (again := ending.step(time.monotonic())) is not None:
        time.sleep(max(0.0, again - time.monotonic()))
    try:
        code = exit_record(where.exit).get("code")
    except Exception:
        code = None
    return {"code": code, "ended": ending.ended, "survivors": ending.survivors}
