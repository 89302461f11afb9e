"""`treadle send`."""

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
    is_past,
    place,
    timed_out,
    warn,
)
from treadle.errors import PeerExited, PeerStalled, TimedOut
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import typing
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place

FLAGS = "--enter --wait --wait-idle --when-idle --replace --anyway --force"


SEND_HELP = """Type into a terminal.

    treadle send ID [TEXT...] [--enter | --wait | --when-idle] [--replace] [--file FILE] [--timeout S] [--anyway]
    treadle send ID --answer KEY
    treadle send ID --cancel NUMBER

  --enter        press Enter after the text, once it is seen in the program's input box
  --wait         press Enter, then wait for the end of the turn that this starts; also called --wait-idle
  --when-idle    queue it: it is typed when the program is next idle, after those that were queued before, one for
                 each turn. Prints its number. With --wait, wait for the end of its turn
  --answer KEY   answer what it asks: 1, y, \\e (Esc), \\r (Enter: what is marked), \\e[B (down). Refused when it asks
                 nothing. Enter follows by itself in a program that reads the answer as a line, such as aider
  --cancel N     remove a queued text; `treadle status ID` lists them
  --replace      remove the text that stands in the input box, instead of refusing to add to it
  --file FILE    type what the file holds; - is standard input
  --timeout S    how long all of this may take, at most (no limit)
  --anyway       type whatever the program is doing, and press Enter whatever its input box shows

Words are joined by one space; \\n, \\t, \\e, \\xHH in the text are as in C. A text never answers a dialog: while the
program asks for a permission or has a question, only a single key is typed, as in `treadle send ID 1`, and Enter is
pressed only with --answer or --anyway. While it works a dialog may come at any moment, so Enter is not pressed then
either: use --when-idle. Of a program that is not recognised one cannot tell, so Enter needs --anyway there too, unless
it shows a prompt.

Exit codes: 0 typed, taken, queued, or idle again. 1 it has ended, or without --timeout: its supervisor does not answer.
3 not typed, or Enter not pressed: it waits for a
person, works, has a text in its input box, or its state is not known. 4 not submitted: the text was not seen in the
input box, or nothing came of Enter. 5 the turn failed. 124 not within the timeout.
"""


def send_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--file --timeout --cancel --answer {WHERE}", FLAGS)
    if not given.rest:
        raise UsageError("expected an id and a text")
    name, *words = given.rest
    where = place(given, name)
    if "--cancel" in given.values:
        return _cancel(where, int(given.number("--cancel", 0)))
    if "--answer" in given.values:
        return _answer(where, given, words)
    data = unescape(" ".join(words))
    if path := given.get("--file"):
        data += _read(path)
    waits, queues = bool(given.flags & {"--wait", "--wait-idle"}), "--when-idle" in given.flags
    enter = waits or queues or bool(given.flags & {"--enter", "--replace"})
    if not data and not enter:
        raise UsageError("there is nothing to send")
    anyway = bool(given.flags & {"--anyway", "--force"})
    if anyway and queues:
        raise UsageError("--when-idle waits until it is safe; --anyway does not care")
    how = (wire.REPLACE if "--replace" in given.flags else 0) | (wire.WHEN_IDLE if queues else 0)
    limit = given.number("--timeout", 0.0)
    deadline = time.monotonic() + limit if "--timeout" in given.values else None
    how |= wire.AT_ANY_TIME if anyway else 0
    try:
        with connect(where, until=deadline) as client:
            before = _detail(client, where)
            if before is None:
                return _send_plainly(client, where, data, enter, anyway)
            if not enter:
                refused = typing.type_text(client, before, data, False, anyway)
                return 0 if refused is None else refuse(where, refused)
            return _submit(client, where, before, data, how, waits)
    except TimedOut:
        warn(f"treadle: {name} was not idle again within {limit:g} s")
        return TIMED_OUT
    except PeerStalled as error:
        return timed_out(error, deadline, limit)
    except PeerExited:
        warn(f"treadle: {where.id} has ended")
        return 1


def _detail(client: Client, where: Place) -> dict[str, Any] | None:
    """Everything the supervisor knows; None from one without our additions."""
    before, client.timeout = client.timeout, where.patience
    try:
        return client.detail()
    except PeerStalled:
        if is_past(client.until):
            raise
        return None
    finally:
        client.timeout = before


def _send_plainly(client: Client, where: Place, data: bytes, enter: bool, anyway: bool) -> int:
    if enter and not anyway:
        return refuse(where, {"why": "unknown", "state": {"name": "unknown"}})
    client.input(data)
    client.status()  # the answer comes after the input was taken
    if enter:
        typing.settle(client)
        client.input(b"\r")
        client.status()
    return 0


def _answer(where: Place, given: Arguments, words: list[str]) -> int:
    key = unescape(given.get("--answer") or "")
    if words or given.flags or not key:
        raise UsageError("--answer types one key, and nothing else")
    with connect(where) as client:
        refused = typing.answer(client, key)
    return 0 if refused is None else refuse(where, refused)


def _cancel(where: Place, number: int) -> int:
    with connect(where) as client:
        answer = client.cancel_prompt(number)
    if answer["stage"] == "cancelled":
        return 0
    if answer["stage"] == "gone":
        warn(f"treadle: nothing with the number {number} is queued in {where.id}")
    else:
        warn(f"treadle: number {number} was typed into {where.id} already")
    return NEEDS_A_PERSON


def _submit(client: Client, where: Place, before: dict[str, Any], data: bytes, how: int, waits: bool) -> int:
    """Submit it, and follow it as far as was asked."""
    if before["canonical"]:
        typing.check_lines(data)
    answer = client.prompt(data, how, typing.patience())
    if how & wire.WHEN_IDLE and answer["stage"] == "queued":
        sys.stdout.write(f"{answer['number']}\n")
        sys.stdout.flush()
        if not waits:
            return 0
    while True:
        code = _code(where, answer, waits, bool(how & wire.AT_ANY_TIME))
        if code is not None:
            return code
        answer = client.prompted()


def _code(where: Place, answer: dict[str, Any], waits: bool, anyway: bool) -> int | None:
    """The exit code, or None while there is more to come."""
    stage, state = answer["stage"], answer.get("state") or {}
    if stage == "dead" or state.get("name") == "dead":
        warn(f"treadle: {where.id} has ended")
        return 1
    if stage in ("refused", "unseen"):
        return refuse(where, answer)
    if stage == "unsubmitted":
        return _not_submitted(where, answer["why"])
    if stage == "cancelled":
        warn(f"treadle: it was cancelled before {where.id} was idle")
        return NEEDS_A_PERSON
    if not waits:
        if typing.accepted(answer):
            return 0
        return _asks(where, state) if stage == "taken" else None
    if stage == "over" and (state["name"] == "idle" or anyway):
        return 0
    if stage in ("over", "taken") and not state.get("settling"):
        return _asks(where, state)
    return None


def _asks(where: Place, state: dict[str, Any]) -> int | None:
    """The exit code for a turn that does not end in idle."""
    from treadle.cli.terminal.wait import instead_of_idle

    return instead_of_idle(where.id, state)


REASONS = {
    "permission": "{id} asks for a permission: {message}",
    "question": "{id} asks a question: {message}",
    "starting": "{id} is still starting; `treadle wait {id} --state idle` waits for it",
    "settling": "what {id} does is just changing; try again",
    "submitted": "{id} has not shown yet what came of the last prompt",
    "text": "there is a text in the input box of {id} already",
    "clearing": "the text in the input box of {id} could not be removed",
    "stopped": "the program in {id} is stopped (its processes have SIGSTOP)",
    "queue": "other texts wait for {id}",
    "full": "too many texts wait for {id}",
    "no question": "{id} asks nothing now",
    "no key": "an answer is one key",
    "read only": "this connection to {id} may only watch",
}
HINTS = {
    "permission": "answer with a key, as in `treadle send {id} --answer 1`; --anyway types a text all the same",
    "question": "answer with a key, as in `treadle send {id} --answer 1`; --anyway types a text all the same",
    "no question": "`treadle wait {id} --state waiting` waits until it asks",
    "no key": "1, y, \\e for Esc, \\r for Enter; --anyway types a text all the same",
    "text": "--replace removes it; `treadle send {id} --enter` submits it",
    "work": "--when-idle types it when the turn is over; --anyway types it now",
    "queue": "--when-idle adds this one; `treadle status {id}` lists them, --cancel removes one",
    "full": "`treadle status {id}` lists them, --cancel removes one",
}


def refuse(where: Place, answer: dict[str, Any]) -> int:
    """Say why it was not typed, or why Enter was not pressed."""
    from treadle.terminal.states import AT_WORK

    why, state = str(answer["why"]), answer.get("state") or {}
    if why == "dead":
        warn(f"treadle: {where.id} has ended")
        return 1
    if why == "unseen":
        return _not_submitted(where, why)
    message = state.get("message") or (state.get("why") or {}).get("said") or ""
    kind = "work" if why in AT_WORK else why
    reason = "{id} works, and may ask something at any moment" if kind == "work" else REASONS.get(why)
    text = (reason or "it is not known what {id} is doing").format(id=where.id, message=message)
    typed = answer.get("stage") == "unseen"
    warn(f"treadle: {text}{'; the text was typed, but Enter was not pressed' if typed else ', so nothing was typed'}")
    hint = HINTS.get(kind, "`treadle explain {id}` says why; --anyway types all the same").format(id=where.id)
    warn(f"  look with `treadle peek {where.id}`; {hint}")
    return NEEDS_A_PERSON


NOT_TAKEN = {
    "unseen": "the text was typed but is not seen in its input box, so Enter was not pressed",
    "in the box": "the text still stands in its input box after Enter, so it was not submitted",
    "no box": "its input box has vanished after Enter, so it is not known whether the text was submitted",
    "no work": "no work was seen after Enter, so it is not known whether the text was submitted",
}


def _not_submitted(where: Place, why: str) -> int:
    warn(f"treadle: {where.id}: {NOT_TAKEN[why]}")
    warn(
        f"  look with `treadle peek {where.id}`; `treadle send {where.id} --enter` presses Enter; --replace types anew"
    )
    return NOT_SUBMITTED


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
