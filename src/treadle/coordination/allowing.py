"""A person's permission for an agent to act against another's claim, once: `treadle coord allow` makes it.

It is kept in our state directory, which no sandbox shows. An agent that runs without one could make its own: then this
is advice.
"""

import os
from hashlib import sha256

from treadle.coordination import origin
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.planning import Planning, read_text, seconds_of, timestamp, write_text
from treadle.errors import Denied
from treadle.io.paths import private_dir, state_dir

VARIABLE = "HEIMDALL_ALLOW"
HINT = "a person can allow it once, outside of the session; ask them, or work on something else"


def grant(planning: Planning, minutes: int) -> str:
    """Keep a new permission; returns its code."""
    if in_session(planning):
        raise Denied("only a person can allow this, in a terminal that no agent has started")
    code = os.urandom(8).hex()
    write_text(_path(code, make=True), timestamp(planning.clock() + minutes * 60) + "\n")
    return code


def require(planning: Planning, what: str) -> None:
    """Raises Denied in an agent's session, unless it was given a permission, which is then used up."""
    if in_session(planning) and not _spend(planning, os.environ.get(VARIABLE, "")):
        raise Denied(f"an agent may not {what}", hint=HINT)


def in_session(planning: Planning) -> bool:
    """Whether an agent's session started us, as far as that can be seen."""
    keys = origin.session_keys(os.environ)
    if keys or origin.given_process(os.environ):
        return True
    return IdentityBindings(planning, "").recognise([], origin.ancestors()) is not None


def _spend(planning: Planning, code: str) -> bool:
    path = _path(code)
    until = seconds_of((read_text(path) or "").strip()) if code else None
    if until is None:
        return False
    try:
        os.unlink(path)  # of two that use it at once, one succeeds
    except FileNotFoundError:
        return False
    return planning.clock() < until


def _path(code: str, *, make: bool = False) -> str:
    place = os.path.join(state_dir(), "allowed")
    return os.path.join(private_dir(place) if make else place, sha256(code.encode(errors="replace")).hexdigest())
