"""Who acts here: what `HEIMDALL_HAID` says, else the agent session that we are part of, else the checkout's person."""

import os

from treadle.coordination import origin
from treadle.coordination.identity import checked, root
from treadle.coordination.planning import Planning
from treadle.coordination.seats import Seats


def acting(planning: Planning, *, enter: bool = False) -> str:
    """The identity. A session that is not known yet is given one of its own when it is about to hold something."""
    seats = Seats(planning, "")
    if declared := os.environ.get("HEIMDALL_HAID"):
        process = origin.given_process(os.environ)
        if enter and process:
            seats.note(checked(declared), process)  # what it holds is its as long as that process runs
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

    # It holds nothing yet, so any name will do that nobody else has.
    return f"{seats.root}/{origin.client_name(program)}-{sha256(keys[0].encode()).hexdigest()[:8]}"
