"""Type into a terminal.

    treadle send ID [TEXT...] [--enter] [--file FILE] [--wait-idle] [--timeout S] [--force]

  --enter        press Enter after the text, once the program has taken it
  --file FILE    type what the file holds; - is standard input
  --wait-idle    then wait until the program has begun to work and is idle again
  --timeout S    how long to wait for that, at most (no limit); 124 when it was not enough
  --force        type although the program asks for a permission: Enter would press one of its buttons

Words are joined by one space; \\n, \\t, \\e, \\xHH in the text are as in C. Exit code 3: it waits for a person.
"""

from __future__ import annotations

import os
import sys
import time

from treadle.cli.arguments import Arguments, Usage
from treadle.cli.terminal import TIMED_OUT, WHERE, connect, place, warn
from treadle.errors import Denied, PeerStalled, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.terminal.client import Client

SETTLED = 120
SETTLE_MAX = 1.5
LEAST = 0.05


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--file --timeout {WHERE}", "--enter --wait-idle --force")
    if not given.rest:
        raise Usage("expected an id and a text")
    name, *words = given.rest
    data = unescape(" ".join(words))
    if path := given.get("--file"):
        data += _read(path)
    if not data and "--enter" not in given.flags and "--wait-idle" not in given.flags:
        raise Usage("there is nothing to send")
    where = place(given, name)
    enter = "--enter" in given.flags
    with connect(where) as client:
        if enter and "--force" not in given.flags:
            _refuse_modal(client)
        if data:
            client.input(data)
            client.status()  # answered after the input was taken
        if enter:
            if data:
                _settle(client)
            client.input(b"\r")
            client.status()
    if "--wait-idle" in given.flags:
        from treadle.cli.terminal.wait import wait_for_state

        limit = given.number("--timeout", 0.0)
        deadline = time.monotonic() + limit if "--timeout" in given.values else None
        try:
            return wait_for_state(where, ("idle",), deadline, worked=True)
        except TimedOut:
            warn(f"treadle: {name} was not idle again within {limit:g} s")
            return TIMED_OUT
    return 0


def _refuse_modal(client: Client) -> None:
    before, client.timeout = client.timeout, 1.0
    try:
        state = client.detail()["state"]
    except PeerStalled:
        return  # a supervisor without our additions cannot say
    finally:
        client.timeout = before
    if state.get("waiting_for") in ("permission", "question"):
        asked = state.get("message") or "it does not say which"
        raise Denied(
            f"the program waits for a person's {state['waiting_for']}: {asked}",
            hint="look with `treadle peek`; answer with a key, as in `treadle send ID 1`, or press Enter with --force",
        )


def _settle(client: Client) -> None:
    """Programs that draw their own input take text and Enter in one piece for a paste: let them draw the text first."""
    started = time.monotonic()
    while (waited := time.monotonic() - started) < SETTLE_MAX:
        if waited >= LEAST and client.status().idle_ms >= SETTLED:
            return
        time.sleep(0.02)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    from treadle.io.files import storage_error

    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise storage_error(error, path, "read") from error


ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "e": b"\x1b", "a": b"\a", "b": b"\b", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    out, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        out.append(os.fsencode(text[at:slash]))
        letter = text[slash + 1 : slash + 2]
        digits = text[slash + 2 : slash + 4]
        if letter == "x" and len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
            out.append(bytes((int(digits, 16),)))
            at = slash + 4
        elif letter in ESCAPES and letter:
            out.append(ESCAPES[letter])
            at = slash + 2
        else:
            out.append(b"\\")
            at = slash + 1
    return b"".join([*out, os.fsencode(text[at:])])
