"""Who acts here: the identity in `HEIMDALL_HAID`, else that of the agent session we are in, else the checkout's."""

import os

from treadle.coordination import origin
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.identity import checked, root
from treadle.coordination.planning import Planning


def acting(planning: Planning, *, enter: bool = False) -> str:
    """The acting identity. With `enter`, a new session gets an identity of its own, so that it can hold claims."""
    bindings = IdentityBindings(planning, "")
    if declared := os.environ.get("HEIMDALL_HAID"):
        _check_own(planning, bindings, checked(declared))
        process = origin.given_process(os.environ)
        if enter and process:
            bindings.note(checked(declared), process)  # its claims then last as long as that process runs
        return checked(declared)
    keys = origin.session_keys(os.environ)
    if found := bindings.recognise(keys, origin.ancestors()):
        return found.haid
    bindings.root = root(planning.project)
    if not keys:
        return bindings.root
    program = keys[0].partition(":")[0]
    if enter:
        return bindings.enter(program, keys[0], origin.declared_process(os.environ, program))
    from hashlib import sha256

    # It holds nothing yet, so any unused name will do.
    return f"{bindings.root}/{origin.client_name(program)}-{sha256(keys[0].encode()).hexdigest()[:8]}"


def _check_own(planning: Planning, bindings: IdentityBindings, declared: str) -> None:
    """Refuse the identity of another living session, in an agent's session that we recognise."""
    theirs = bindings.of(declared)
    if theirs is None or theirs.of or not bindings.alive(theirs):
        return
    mine = bindings.recognise(origin.session_keys(os.environ), origin.ancestors())
    if mine is not None and declared not in bindings.family(mine.haid):
        from treadle.coordination import allowing

        allowing.require(planning, f"act as {declared}")
