"""`treadle status`."""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, show
from treadle.errors import NotFound, PeerStalled
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal.states import UNKNOWN

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place
    from treadle.wire.terminal.frames import StatusReply


WAITS_FOR = {"text": "its input box is empty", "stopped": "the program is no longer stopped"}


STATUS_HELP = """How a terminal is doing.

    treadle status ID [--json]

Session, pid, idle_ms, alive and state; for one that waits for a person also what it asks, and the texts that are queued
with `treadle send --when-idle`. With --json all that is known, and why; one that has ended gives its exit record. One
whose supervisor does not answer, as on a very busy machine, is unknown.
"""


def status_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--json")
    where = place(given, given.exactly(1, "one id")[0])
    as_json = "--json" in given.flags
    try:
        with connect(where) as client:
            if as_json:
                show(_detail(client, where))
                return 0
            status = client.status()
            state, message, prompts = _state(client, where, status)
    except NotFound:
        return _ended(where.exit, where.id, as_json)
    except PeerStalled as error:
        return _silent(where, as_json, error.message)
    sys.stdout.write(
        f"session: {where.id}\n"
        f"pid:     {status.pid}\n"
        f"idle_ms: {status.idle_ms}\n"
        f"alive:   {'true' if status.alive else 'false'}\n"
        f"state:   {state}\n"
    )
    if message:
        sys.stdout.write(f"asks:    {message}\n")
    for prompt in prompts:
        why = f" until {WAITS_FOR.get(prompt['waits_for'], 'it is idle')}" if prompt["stage"] == "queued" else ""
        sys.stdout.write(
            f"{prompt['stage']}{why}: {prompt['number']}  {(prompt['text'].splitlines() or [''])[0][:80]}\n"
        )
    return 0


def _detail(client: Client, where: Place) -> dict[str, Any]:
    """Everything that is known; from a supervisor with only the basic protocol, what STATUS says."""
    client.timeout = where.patience
    try:
        return client.detail()
    except PeerStalled:
        if where.is_ours:  # it is only slow, and what STATUS says may be over
            raise
    status = client.status()
    return {
        "id": where.id,
        "supervisor": where.pids()[0] or None,
        "pid": status.pid,
        "alive": bool(status.alive),
        "idle_ms": status.idle_ms,
        "state": {"name": status.state_name, "wire": status.state_name, "since_ms": status.state_ms},
    }


def _state(client: Client, where: Place, status: StatusReply) -> tuple[str, str, list[dict[str, Any]]]:
    """The state in words, what is asked of a person, and what is queued: the basic protocol has no word for these."""
    client.timeout = where.patience
    try:
        detail = client.detail()
    except PeerStalled:
        if where.is_ours:
            raise
        return f"{status.state_name} ({status.state_ms}ms)", "", []
    found = detail["state"]
    hint = f", {found['hint']} by its rhythm" if found.get("hint") else ""
    state = f"{found['name']} ({found['since_ms']}ms{hint})"
    return state, found.get("message") or "", detail.get("prompts") or []


def _silent(where: Place, as_json: bool, why: str) -> int:
    """Its supervisor lives, but does not answer: what it last said may be over by now."""
    supervisor, pid = where.pids()
    if as_json:
        state = {"name": UNKNOWN, "why": {"source": "process", "said": why}}
        show({"id": where.id, "supervisor": supervisor or None, "pid": pid, "alive": True, "state": state})
    else:
        sys.stdout.write(f"session: {where.id}\npid:     {pid}\nalive:   true\nstate:   {UNKNOWN} ({why})\n")
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
