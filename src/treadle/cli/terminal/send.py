"""Type into a terminal.

    treadle send ID [TEXT...] [--enter] [--file FILE] [--wait-idle] [--timeout S] [--anyway]

  --enter        press Enter after the text, once the program has taken it
  --file FILE    type what the file holds; - is standard input
  --wait-idle    press Enter, then wait until the program has begun to work and is idle again
  --timeout S    how long to wait for that, at most (no limit)
  --anyway       type whatever the program is doing

Words are joined by one space; \\n, \\t, \\e, \\xHH in the text are as in C. A text never answers a dialog: while the
program asks for a permission or has a question, only a single key is typed, as in `treadle send ID 1`, and Enter is
pressed only with --anyway. Of a program that nobody recognises one cannot tell, so Enter needs --anyway there too,
unless it shows a prompt.

Exit codes: 0 typed, or idle again. 1 it has ended. 3 it waits for a person, or nobody can tell what it does. 4 not
submitted: after Enter the text still stands in the agent's input box, or no work was seen. 5 the turn failed. 124 not
within the timeout.
"""

from __future__ import annotations

import os
import sys
import time

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import (
    NEEDS_A_PERSON,
    NOT_SUBMITTED,
    TIMED_OUT,
    WHERE,
    connect,
    place,
    warn,
)
from treadle.errors import PeerStalled
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import typing

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place

BEGIN = 20.0
"""How many seconds a program may take to begin work after a prompt; agents need seconds on a busy machine.
TREADLE_SUBMIT_SECONDS sets another limit.
"""

LOOK_PAUSE = 2.0


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--file --timeout {WHERE}", "--enter --wait-idle --anyway --force")
    if not given.rest:
        raise UsageError("expected an id and a text")
    name, *words = given.rest
    data = unescape(" ".join(words))
    if path := given.get("--file"):
        data += _read(path)
    waits = "--wait-idle" in given.flags
    enter = waits or "--enter" in given.flags
    if not data and not enter:
        raise UsageError("there is nothing to send")
    anyway = bool(given.flags & {"--anyway", "--force"})
    limit = given.number("--timeout", 0.0)
    deadline = time.monotonic() + limit if "--timeout" in given.values else None
    where = place(given, name)
    with connect(where) as client:
        before = _detail(client, where)
        if before is None:
            return _send_plainly(client, where, data, enter, anyway)
        state = before["state"]
        seen = enter and data and state.get("agent") and typing.in_box(client, data) is False
        if code := _type(client, where, before, data, enter, anyway):
            return code
        if seen and not typing.submitted(client, data, state["turns"], _patience()):
            return _not_submitted(where, "the text still stands in its input box after Enter")
        if not waits:
            return 0
        code = _follow(client, where, before, data, deadline, anyway)
    if code == TIMED_OUT:
        warn(f"treadle: {name} was not idle again within {limit:g} s")
    return code


def _detail(client: Client, where: Place) -> dict[str, Any] | None:
    """Everything the supervisor knows; None from one without our additions."""
    before, client.timeout = client.timeout, where.patience
    try:
        return client.detail()
    except PeerStalled:
        return None
    finally:
        client.timeout = before


def _send_plainly(client: Client, where: Place, data: bytes, enter: bool, anyway: bool) -> int:
    if enter and not anyway:
        return _refuse(where, {"name": "unknown"}, "unknown")
    client.input(data)
    client.status()  # the answer comes after the input was taken
    if enter:
        typing.settle(client)
        client.input(b"\r")
        client.status()
    return 0


def _type(client: Client, where: Place, detail: dict[str, Any], data: bytes, enter: bool, anyway: bool) -> int:
    """Type the text. Returns 0, or the exit code that says why nothing was typed."""
    refused = typing.type_text(client, detail, data, enter, anyway)
    return 0 if refused is None else _refuse(where, refused["state"], refused["why"])


def _refuse(where: Place, state: dict[str, Any], why: str) -> int:
    if why == "dead":
        warn(f"treadle: {where.id} has ended")
        return 1
    message = state.get("message") or (state.get("why") or {}).get("said") or ""
    words = {
        "permission": f"{where.id} asks for a permission: {message}",
        "question": f"{where.id} asks a question: {message}",
        "starting": f"{where.id} is still starting; `treadle wait {where.id} --state idle` waits for it",
        "settling": f"what {where.id} does is just changing; try again",
    }
    warn(f"treadle: {words.get(why, f'nobody can tell what {where.id} is doing, so nothing was typed')}")
    hint = f"look with `treadle peek {where.id}`"
    if why in ("permission", "question"):
        hint += f"; answer with one key, as in `treadle send {where.id} 1`; --anyway types a text all the same"
    else:
        hint += f"; `treadle explain {where.id}` says why; --anyway types all the same"
    warn(f"  {hint}")
    return NEEDS_A_PERSON


def _follow(
    client: Client, where: Place, before: dict[str, Any], data: bytes, deadline: float | None, anyway: bool
) -> int:
    """Wait for work to begin, and for its end."""
    from treadle.cli.terminal.wait import AT_WORK, Watched, instead_of_idle

    begin = time.monotonic() + _patience()
    watched = Watched(where)
    look = time.monotonic() + LOOK_PAUSE
    begun = False
    try:
        while True:
            state = watched.state()
            now = time.monotonic()
            if state["name"] == "dead":
                warn(f"treadle: {where.id} has ended")
                return 1
            if anyway and state["name"] == "unknown":
                state["name"] = "idle" if state.get("hint") == "idle" else "working"
            begun = begun or _work_seen(before, state)
            if not begun and state["name"] == "idle" and not state.get("settling") and now > look:
                look = now + LOOK_PAUSE
                begun = _taken(client, data)
            if not state.get("settling") and state["name"] not in (*AT_WORK, "starting"):
                if begun and state["name"] == "idle":
                    return 0
                if (begun or state["name"] != "error") and (code := instead_of_idle(where.id, state)) is not None:
                    return code
            if not begun and now > begin:
                return _not_submitted(where, "no work was seen after Enter")
            if deadline is not None and now >= deadline:
                return TIMED_OUT
            time.sleep(0.05)
    finally:
        watched.close()


def _patience() -> float:
    return float(os.environ.get("TREADLE_SUBMIT_SECONDS") or BEGIN)


def _not_submitted(where: Place, why: str) -> int:
    warn(f"treadle: {where.id}: {why}, so the text was not submitted")
    warn(f"  look with `treadle peek {where.id}`; `treadle send {where.id} --enter` presses Enter again")
    return NOT_SUBMITTED


def _work_seen(before: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether work was seen since: it is working, was for a moment, or shows another prompt than before."""
    old = before["state"]
    if state["name"] in ("thinking", "streaming", "tool_use", "active", "working"):
        return True
    if state.get("turns", 0) > old.get("turns", 0) or (state["name"] == "error" and old["name"] != "error"):
        return True
    by_prompt = (state.get("why") or {}).get("source") in ("prompt", "rhythm")
    return bool(by_prompt and state.get("end", 0) > before["output"]["end"] + 2 and state["idle_ms"] >= 400)


def _taken(client: Client, data: bytes) -> bool:
    """Whether the text has moved from the input box to the transcript: some turns are too short to be seen running."""
    return typing.in_box(client, data) is False and typing.first_words(data) in client.explain()["screen"]


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    from treadle.io.reading import read

    return read(path)


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
