"""`treadle wait`."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Sequence

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import NEEDS_A_PERSON, TIMED_OUT, TURN_FAILED, WHERE, connect, is_past, place, timed_out, warn
from treadle.errors import NotFound, PeerExited, PeerStalled, TimedOut
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place

STATES = (
    *("idle", "working", "permission", "question", "waiting", "error", "starting", "unknown", "done", "dead"),
    *("submitted", "thinking", "streaming", "tool_use", "active", "auth"),
)
AT_WORK = ("thinking", "streaming", "tool_use", "active", "working")
AT_REST = ("idle", "waiting", "error", "dead")
ANSWER = 2.0
"""How many seconds a supervisor has to show that it knows our additions."""
PAUSE = 0.2
"""Seconds between two looks at a state whose changes are not announced."""


WAIT_HELP = """Wait until a terminal is in a state, or has ended.

    treadle wait ID --state STATE[,STATE...] [--timeout S]
    treadle wait --any ID ID... [--state STATE,...] [--timeout S]
    treadle wait ID --exit [--timeout S]

STATE is idle, submitted, working, permission, question, waiting (for either), error, starting, unknown, done or dead;
or, finer than working: thinking, streaming, tool_use.

  --any       of several terminals, the first that gets there; prints its id and state. Without --state: the first that
              is idle, waits for a person, failed or ended
  --anyway    take a program that is not recognised for idle when it is silent
  --exit      until it has ended; the exit code is the program's, also when that was long ago
  --timeout S how long to wait, at most

Exit codes: 0 it is in the state. 1 it has ended instead. 3 it waits for a person instead of getting idle, or no one can
tell what it does. 5 its turn failed instead. 124 not within the timeout.
"""


def wait_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--state --timeout {WHERE}", "--exit --any --anyway")
    if "--any" not in given.flags:
        given.exactly(1, "one id; for several say --any")
    elif not given.rest:
        raise UsageError("expected ids")
    places = [place(given, name) for name in given.rest]
    limit = given.number("--timeout", 0.0)
    deadline = time.monotonic() + limit if "--timeout" in given.values else None
    try:
        if "--exit" in given.flags:
            return _wait_for_exit(places[0], deadline)
        wanted = given.get("--state") if "--any" in given.flags else given.need("--state")
        states = tuple(wanted.split(",")) if wanted else AT_REST
        if unknown := [state for state in states if state not in STATES]:
            raise UsageError(f"unknown state {unknown[0]!r}; it is one of {', '.join(STATES)}")
        return wait_for_state(
            places, states, deadline, anyway="--anyway" in given.flags, name_it="--any" in given.flags
        )
    except TimedOut:
        warn(f"treadle: {', '.join(given.rest)} did not get there within {limit:g} s")
        return TIMED_OUT
    except PeerStalled as error:
        return timed_out(error, deadline, limit)


def _wait_for_exit(where: Place, deadline: float | None) -> int:
    try:
        with connect(where, until=deadline) as client:
            client.timeout = ANSWER
            try:
                client.hello(wire.READ_ONLY | wire.FROM, 1 << 62)  # only to learn of its end: no output
            except PeerStalled:
                pass  # a supervisor without our additions sends all of its output
            client.subscribe()
            for message in client.messages():
                if isinstance(message, wire.Exit):
                    return message.code
    except (NotFound, PeerExited):
        pass
    from treadle.terminal.history import exit_record

    code = exit_record(where.exit).get("code")
    return code if isinstance(code, int) else 1


class Watched:
    """One terminal that is waited for."""

    def __init__(self, where: Place, until: float | None) -> None:
        self.where = where
        self.plain = False  # whether its supervisor has only the basic protocol
        self.client: Client | None = None
        try:
            self.client = connect(where, until=until)
            self.client.timeout = where.patience
            self.client.hello(wire.WANT_STATES | wire.READ_ONLY)
        except PeerStalled:
            if is_past(until):
                self.close()
                raise
            self.plain = True
        except (NotFound, PeerExited):
            self.close()

    def close(self) -> None:
        if self.client:
            self.client.close()
            self.client = None

    def state(self) -> dict[str, Any]:
        """What it is doing now, with `idle_ms`."""
        if self.client is None:
            return {"name": "dead"}
        try:
            self.client.waiting()
            if self.plain:
                status = self.client.status()
                return {"name": status.state_name if status.alive else "dead", "idle_ms": status.idle_ms}
            detail = self.client.detail()
            return {**detail["state"], "idle_ms": detail["idle_ms"], "end": detail["output"]["end"]}
        except PeerExited:
            self.close()
            return {"name": "dead"}


def wait_for_state(
    places: Sequence[Place], states: tuple[str, ...], deadline: float | None, *, anyway: bool, name_it: bool = False
) -> int:
    """Return 0 when one of the terminals is in one of the states; another code when it ended up elsewhere for good."""
    watched = [Watched(where, deadline) for where in places]
    try:
        while True:
            for one in watched:
                code = _verdict(one, states, anyway)
                if code is not None:
                    if name_it:
                        sys.stdout.write(f"{one.where.id} {one.state()['name']}\n")
                    return code
            _wait_for_news(watched, deadline)
    finally:
        for one in watched:
            one.close()


def _verdict(one: Watched, states: tuple[str, ...], anyway: bool) -> int | None:
    """The exit code, or None while undecided."""
    state = one.state()
    if state.get("settling"):
        return None
    if anyway and state["name"] == "unknown" and state.get("hint") == "idle":
        state["name"] = "idle"
    if matches(state, states):
        return 0
    if state["name"] == "dead":
        warn(f"treadle: {one.where.id} has ended")
        return 1
    return instead_of_idle(one.where.id, state) if "idle" in states else None


def instead_of_idle(name: str, state: dict[str, Any]) -> int | None:
    """The exit code for a terminal that will not become idle by itself."""
    if state["name"] in ("permission", "question"):
        sys.stdout.write(f"{state['name']}: {state.get('message') or ''}\n")
        return NEEDS_A_PERSON
    if state["name"] == "error":
        sys.stdout.write(f"error: {state.get('message') or ''}\n")
        return TURN_FAILED
    if state["name"] == "unknown" and state.get("hint") == "idle":
        warn(f"treadle: it cannot be told whether {name} is idle: it is silent, and not a program that is known")
        warn(f"  look with `treadle peek {name}`; --anyway takes silence for idle; `treadle explain {name}` says why")
        return NEEDS_A_PERSON
    return None


def _wait_for_news(watched: Sequence[Watched], deadline: float | None) -> None:
    """Wait until one of them reports something, or until it is time to look again."""
    if is_past(deadline):
        raise TimedOut("it took too long")
    sockets = [one.client.sock for one in watched if one.client and not one.plain]
    pause = PAUSE if deadline is None else min(PAUSE, max(0.0, deadline - time.monotonic()))
    if not sockets:
        time.sleep(pause)
    else:
        select.select(sockets, [], [], pause)


def matches(state: dict[str, Any], states: tuple[str, ...]) -> bool:
    names = {state["name"]}
    if state["name"] in ("permission", "question"):
        names.add("waiting")
    elif state["name"] in AT_WORK:
        names.add("working")
    if state.get("done"):
        names.add("done")
    return bool(names & set(states))
