"""Who acts here: the identity in `HEIMDALL_HAID`, else that of the agent session we are in, else the checkout's."""

import os

from treadle.coordination import origin
from treadle.coordination.identity import checked, root
from treadle.coordination.planning import Planning
from treadle.coordination.seats import Seats


def acting(planning: Planning, *, enter: bool = False) -> str:
    """The acting identity. With `enter`, a new session gets an identity of its own, so that it can hold claims."""
    seats = Seats(planning, "")
    if declared := os.environ.get("HEIMDALL_HAID"):
        _check_own(planning, seats, checked(declared))
        process = origin.given_process(os.environ)
        if enter and process:
            seats.note(checked(declared), process)  # its claims then last as long as that process runs
        return checked(declared)
    keys = origin.session_keys(os.environ)
    if seat := seats.recognise(keys, origin.ancestors()):
        return seat.haid
    seats.root = root(planning.project)
    if not keys:
        return seats.root
    program = keys[0].partition(":")[0]
    if enter:
        return seats.enter(program, keys[0], origin.declared_process(os.environ, program))
    from hashlib import sha256

    # It holds nothing yet, so any unused name will do.
    return f"{seats.root}/{origin.client_name(program)}-{sha256(keys[0].encode()).hexdigest()[:8]}"


def _check_own(planning: Planning, seats: Seats, declared: str) -> None:
    """Refuse the identity of another living session, in an agent's session that we recognise."""
    theirs = seats.of(declared)
    if theirs is None or theirs.of or not seats.alive(theirs):
        return
    mine = seats.recognise(origin.session_keys(os.environ), origin.ancestors())
    if mine is not None and declared not in seats.family(mine.haid):
        from treadle.coordination import allowing

        allowing.require(planning, f"act as {declared}")
