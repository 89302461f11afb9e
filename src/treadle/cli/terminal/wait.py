"""Wait until a terminal is in a state, or has ended.

    treadle wait ID --state STATE[,STATE...] [--timeout S]
    treadle wait ID --exit [--timeout S]

STATE is idle, thinking, streaming, tool_use, active or dead, or, finer than the wire has it, working, waiting,
permission, question, auth or done. `idle` means ready for input: when the program asks for a person instead, the exit
code is 3. With --exit the exit code is the program's, also when it ended long ago. 124: not within the timeout.
"""

from __future__ import annotations

import sys
import time

from treadle.cli.arguments import Arguments, Usage
from treadle.cli.terminal import TIMED_OUT, WHERE, connect, place, warn
from treadle.errors import NotFound, PeerExited, PeerStalled, TimedOut
from treadle.wire.terminal import frames as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.client import Client
    from treadle.terminal.places import Place

STATES = (
    *("idle", "thinking", "streaming", "tool_use", "active", "dead"),
    *("working", "waiting", "permission", "question", "auth", "done"),
)
NEEDS_A_PERSON = 3
ANSWER = 2.0
"""Seconds that a supervisor has to show that it knows our additions."""
SETTLED, FIRST_WORDS = 0.5, 3.0
"""Seconds of silence after which an idle program is ready for input: after its last words, or without any."""
QUICK = 2.0
"""Seconds after which a program that did not visibly begin to work is taken to have done so."""


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--state --timeout {WHERE}", "--exit")
    where = place(given, given.exactly(1, "one id")[0])
    limit = given.number("--timeout", 0.0)
    deadline = time.monotonic() + limit if "--timeout" in given.values else None
    try:
        if "--exit" in given.flags:
            return _wait_for_exit(where, deadline)
        states = tuple(given.need("--state").split(","))
        if unknown := [state for state in states if state not in STATES]:
            raise Usage(f"unknown state {unknown[0]!r}; it is one of {', '.join(STATES)}")
        return wait_for_state(where, states, deadline)
    except TimedOut:
        warn(f"treadle: {where.id} did not get there within {limit:g} s")
        return TIMED_OUT


def _wait_for_exit(where: Place, deadline: float | None) -> int:
    try:
        with connect(where) as client:
            client.timeout = ANSWER
            try:
                client.hello(wire.READ_ONLY | wire.FROM, 1 << 62)  # only the end of it
            except PeerStalled:
                pass  # a supervisor without our additions gives all of it
            client.subscribe()
            for message in client.messages(_left(deadline)):
                if isinstance(message, wire.Exit):
                    return message.code
    except (NotFound, PeerExited):
        pass
    from treadle.terminal.history import exit_record

    code = exit_record(where.exit).get("code")
    return code if isinstance(code, int) else 1


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def wait_for_state(where: Place, states: tuple[str, ...], deadline: float | None, worked: bool = False) -> int:
    """0 when it is in one of the states. With `worked`, it must have been at work first, if only for a moment."""
    try:
        with connect(where) as client:
            return _follow(client, states, deadline, worked)
    except (NotFound, PeerExited):
        if "dead" in states:
            return 0
        warn(f"treadle: {where.id} has ended")
        return 1


def _follow(client: Client, states: tuple[str, ...], deadline: float | None, worked: bool) -> int:
    client.hello(wire.WANT_STATES | wire.READ_ONLY)
    quick = time.monotonic() + QUICK
    while True:
        detail = client.detail()
        state = detail["state"]
        busy = state["name"] not in ("idle", "dead") and not state.get("waiting_for")
        worked = worked and not busy and time.monotonic() < quick
        unsettled = _unsettled(detail) if "idle" in states and not busy else 0.0
        if not worked and not unsettled:
            if matches(state, states):
                return 0
            if state["name"] == "dead":
                warn("treadle: the program has ended")
                return 1
            if "idle" in states and state.get("waiting_for"):
                sys.stdout.write(f"{state['waiting_for']}: {state.get('message') or ''}\n")
                return NEEDS_A_PERSON
        pauses = (deadline, quick if worked else None, time.monotonic() + unsettled if unsettled else None)
        try:
            _next_state(client, min([moment for moment in pauses if moment], default=None))
        except TimedOut:
            if deadline is not None and time.monotonic() >= deadline:
                raise


def _unsettled(detail: dict[str, Any]) -> float:
    """Seconds until an idle program can be taken to have drawn its prompt. One that has just begun is idle too."""
    if not detail["alive"]:
        return 0.0
    needed = SETTLED if detail["output"]["end"] else FIRST_WORDS
    idle: int = detail["idle_ms"]
    return max(0.0, needed - idle / 1000)


def _next_state(client: Client, deadline: float | None) -> None:
    for message in client.messages(_left(deadline)):
        if isinstance(message, wire.State):
            return


def matches(state: dict[str, Any], states: tuple[str, ...]) -> bool:
    waiting = state.get("waiting_for")
    names = {state["name"]}
    if waiting:
        names = {"waiting", waiting}
    elif state["name"] in ("thinking", "streaming", "tool_use", "active"):
        names.add("working")
    if state.get("done"):
        names.add("done")
    return bool(names & set(states))
