"""`treadle send`, `wait` and `resize`: type into a terminal, and wait for what comes of it."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence

from treadle.cli import terminal
from treadle.cli.arguments import Arguments, UsageError, small
from treadle.cli.terminal import WHERE
from treadle.errors import NotFound, PeerExited, PeerStalled, TimedOut
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import keyboard
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place


# `treadle wait`.

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


WAIT_HELP = """Wait for a terminal to reach a state or to end.

    treadle wait ID --state STATE[,STATE...] [--timeout S]
    treadle wait --any ID ID... [--state STATE,...] [--timeout S]
    treadle wait ID --exit [--timeout S]

STATE is idle, submitted, working, permission, question, waiting (for either), error, starting, unknown, done or dead;
or, finer than working: thinking, streaming, tool_use.

  --any       wait for the first of several terminals and print its id and state. Default state: idle, waiting for a
              person, failed or ended
  --anyway    treat an unrecognised program as idle when it is silent
  --exit      wait until the program has ended; exits with its exit code
  --timeout S timeout in seconds

Exit codes: 0 state reached. 1 the terminal ended. 3 it waits for a person, or its state is unknown. 5 its turn failed.
124 timeout.
"""


@small(WAIT_HELP, f"--state --timeout {WHERE}", "--exit --any --anyway", words="terminals")
def wait_command(given: Arguments) -> int:
    if "--any" not in given.flags:
        given.exactly(1, "one id; for several say --any")
    elif not given.rest:
        raise UsageError("expected ids")
    places = [terminal.place(given, name) for name in given.rest]
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
        terminal.warn(f"treadle: {', '.join(given.rest)} did not reach that state within {limit:g} s")
        return terminal.TIMED_OUT
    except PeerStalled as error:
        return terminal.timed_out(error, deadline, limit)


def _wait_for_exit(where: Place, deadline: float | None) -> int:
    try:
        with terminal.connect(where, until=deadline) as client:
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
            self.client = terminal.connect(where, until=until)
            self.client.timeout = where.patience
            self.client.hello(wire.WANT_STATES | wire.READ_ONLY)
        except PeerStalled:
            if terminal.is_past(until):
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
        terminal.warn(f"treadle: {one.where.id} has ended")
        return 1
    return instead_of_idle(one.where.id, state) if "idle" in states else None


def instead_of_idle(name: str, state: dict[str, Any]) -> int | None:
    """The exit code for a terminal that will not become idle by itself."""
    if state["name"] in ("permission", "question", "error"):
        sys.stdout.write(f"{state['name']}: {state.get('message') or ''}\n")
        return terminal.TURN_FAILED if state["name"] == "error" else terminal.NEEDS_A_PERSON
    if state["name"] == "unknown" and state.get("hint") == "idle":
        terminal.warn(f"treadle: unknown whether {name} is idle: it is silent, and no known program")
        terminal.warn(
            f"  look with `treadle peek {name}`; --anyway treats silence as idle; `treadle explain {name}` shows why"
        )
        return terminal.NEEDS_A_PERSON
    return None


def _wait_for_news(watched: Sequence[Watched], deadline: float | None) -> None:
    """Wait until one of them reports something, or until it is time to look again."""
    if terminal.is_past(deadline):
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


# `treadle send`.

FLAGS = "--enter --wait --wait-idle --when-idle --replace --anyway --force --escapes"


SEND_HELP = """Type into a terminal.

    treadle send ID [TEXT...] [--enter | --wait | --when-idle] [--replace] [--file FILE] [--escapes]
                    [--timeout S] [--anyway]
    treadle send ID --answer KEY [--to DIALOG]
    treadle send ID --cancel NUMBER

  --enter        press Enter once the text appears in the program's input box
  --wait         press Enter, then wait for the end of that turn (alias: --wait-idle)
  --when-idle    queue the text until the program is idle, one text per turn. Prints its number. With --wait, wait for
                 the end of its turn
  --answer KEY   answer its question: 1, y, \\e (Esc), \\r (Enter: the marked option), \\e[B (down). Refused if there is
                 no question. In programs that read a line, such as aider, Enter is added
  --to DIALOG    the dialog's id from `treadle status`. Nothing is typed if the program asks something else by then.
                 Required if others are connected or have answered in this turn
  --cancel N     remove a queued text; `treadle status ID` lists them
  --replace      replace the text in the input box, instead of refusing
  --file FILE    type the contents of a file; - is standard input
  --escapes      read \\n, \\t, \\e and \\xHH in the text as in C, and \\\\ as a backslash
  --timeout S    timeout in seconds (default: none)
  --anyway       type in any state, and press Enter whatever the input box shows

Words are joined by one space. A text never answers a dialog: while the program asks, only --answer types, unless
--anyway is given. While it works, Enter is not pressed, because a dialog may open at any moment: use --when-idle. In an
unrecognised program without a prompt, Enter also needs --anyway.

Exit codes: 0 typed, accepted, queued, or idle again. 1 the terminal has ended, or its supervisor does not respond
(without --timeout). 3 not typed, or Enter not pressed: the program waits for a person, works, has text in its input
box, or is in an unknown state. 4 not submitted: the text did not appear in the input box, or Enter had no effect. 5 the
turn failed. 124 timeout.
"""


@small(SEND_HELP, f"--file --timeout --cancel --answer --to {WHERE}", FLAGS, words="terminals")
def send_command(given: Arguments) -> int:
    if not given.rest:
        raise UsageError("expected an id and a text")
    name, *words = given.rest
    where = terminal.place(given, name)
    if "--cancel" in given.values:
        return _cancel(where, int(given.number("--cancel", 0)))
    if "--answer" in given.values:
        return _answer(where, given, words)
    if "--to" in given.values:
        raise UsageError("--to needs --answer")
    data = _text(" ".join(words), "--escapes" in given.flags)
    if path := given.get("--file"):
        data += _read(path)
    waits, queues = bool(given.flags & {"--wait", "--wait-idle"}), "--when-idle" in given.flags
    enter = waits or queues or bool(given.flags & {"--enter", "--replace"})
    if not data and not enter:
        raise UsageError("there is nothing to send")
    anyway = bool(given.flags & {"--anyway", "--force"})
    if anyway and queues:
        raise UsageError("--when-idle and --anyway cannot be combined")
    how = (wire.REPLACE if "--replace" in given.flags else 0) | (wire.WHEN_IDLE if queues else 0)
    limit = given.number("--timeout", 0.0)
    deadline = time.monotonic() + limit if "--timeout" in given.values else None
    how |= wire.AT_ANY_TIME if anyway else 0
    try:
        with terminal.connect(where, until=deadline) as client:
            before = _detail(client, where)
            if before is None:
                return _send_plainly(client, where, data, enter, anyway)
            if not enter:
                refused = keyboard.type_text(client, before, data, False, anyway)
                return 0 if refused is None else refuse(where, refused)
            return _submit(client, where, before, data, how, waits)
    except TimedOut:
        terminal.warn(f"treadle: {name} was not idle again within {limit:g} s")
        return terminal.TIMED_OUT
    except PeerStalled as error:
        return terminal.timed_out(error, deadline, limit)
    except PeerExited:
        terminal.warn(f"treadle: {where.id} has ended")
        return 1


def _detail(client: Client, where: Place) -> dict[str, Any] | None:
    """Everything the supervisor knows; None from one without our additions."""
    before, client.timeout = client.timeout, where.patience
    try:
        return client.detail()
    except PeerStalled:
        if terminal.is_past(client.until):
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
        keyboard.settle(client)
        client.input(b"\r")
        client.status()
    return 0


def _answer(where: Place, given: Arguments, words: list[str]) -> int:
    key = unescape(given.get("--answer") or "")
    if words or given.flags or not key:
        raise UsageError("--answer takes one key and no other text")
    with terminal.connect(where) as client:
        if refused := keyboard.answer(client, key, given.get("--to") or ""):
            return refuse(where, refused)
        if again := keyboard.asked_again(client, given.get("--to") or ""):
            terminal.warn(f"treadle: the key was typed; {where.id} asks the same again ({again}), or has ignored it")
    return 0


def _cancel(where: Place, number: int) -> int:
    with terminal.connect(where) as client:
        answer = client.cancel_prompt(number)
    if answer["stage"] == "cancelled":
        return 0
    if answer["stage"] == "gone":
        terminal.warn(f"treadle: nothing with the number {number} is queued in {where.id}")
    else:
        terminal.warn(f"treadle: number {number} was typed into {where.id} already")
    return terminal.NEEDS_A_PERSON


def _submit(client: Client, where: Place, before: dict[str, Any], data: bytes, how: int, waits: bool) -> int:
    """Submit it, and follow it as far as was asked."""
    if before["canonical"]:
        keyboard.check_lines(data)
    answer = client.prompt(data, how, keyboard.patience())
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
        terminal.warn(f"treadle: {where.id} has ended")
        return 1
    if stage in ("refused", "unseen"):
        return refuse(where, answer)
    if stage == "unsubmitted":
        return _not_submitted(where, answer["why"])
    if stage == "cancelled":
        terminal.warn(f"treadle: it was cancelled before {where.id} was idle")
        return terminal.NEEDS_A_PERSON
    if not waits:
        if keyboard.accepted(answer):
            return 0
        return instead_of_idle(where.id, state) if stage == "taken" else None
    if stage == "over" and (state["name"] == "idle" or anyway):
        return 0
    if stage in ("over", "taken") and not state.get("settling"):
        return instead_of_idle(where.id, state)
    return None


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
    "mode": "the input box of {id} is in its {mode} mode, where a text is no prompt",
    "shell": "{id} runs a text that begins with ! as a shell command",
    "menu": "in the input box of {id} a text that begins with a number looks like the options of a dialog",
    "no question": "{id} has no open question",
    "no key": "an answer is one key",
    "changed": "{id} asks something else now ({dialog}): {message}",
    "answered": "another answer was typed, and {id} has not shown what came of it",
    "which": "others may answer {id} too, so say which dialog is meant; it asks now ({dialog}): {message}",
    "read only": "this connection to {id} may only watch",
}
ANSWER_IT = "answer with a key, as in `treadle send {id} --answer 1 --to {dialog}`; --anyway types a text anyway"
HINTS = {
    "permission": ANSWER_IT,
    "question": ANSWER_IT,
    "changed": ANSWER_IT,
    "which": ANSWER_IT,
    "answered": "`treadle attach {id}` answers with your own hands; --anyway types a text anyway",
    "no question": "`treadle wait {id} --state waiting` waits until it asks",
    "no key": "1, y, \\e for Esc, \\r for Enter; --anyway types a text anyway",
    "text": "--replace removes it; `treadle send {id} --enter` submits it",
    "mode": "--replace leaves that mode; --anyway types anyway",
    "shell": "put a space or a word before it; --anyway types it anyway",
    "menu": "put a word before it; --anyway types it anyway",
    "work": "--when-idle types it when the turn is over; --anyway types it now",
    "queue": "--when-idle adds this one; `treadle status {id}` lists them, --cancel removes one",
    "full": "`treadle status {id}` lists them, --cancel removes one",
}


def refuse(where: Place, answer: dict[str, Any]) -> int:
    """Say why it was not typed, or why Enter was not pressed."""
    from treadle.terminal.states import AT_WORK

    why, state = str(answer["why"]), answer.get("state") or {}
    if why == "dead":
        terminal.warn(f"treadle: {where.id} has ended")
        return 1
    if why == "unseen":
        return _not_submitted(where, why)
    message = state.get("message") or (state.get("why") or {}).get("said") or ""
    kind, dialog = "work" if why in AT_WORK else why, state.get("dialog") or "DIALOG"
    reason = "{id} works, and may ask something at any moment" if kind == "work" else REASONS.get(why)
    text = (reason or "it is not known what {id} is doing").format(
        id=where.id, message=message, dialog=dialog, mode=state.get("mode")
    )
    typed = answer.get("stage") == "unseen"
    terminal.warn(
        f"treadle: {text}{'; the text was typed, but Enter was not pressed' if typed else ', so nothing was typed'}"
    )
    hint = HINTS.get(kind, "`treadle explain {id}` says why; --anyway types anyway").format(id=where.id, dialog=dialog)
    terminal.warn(f"  look with `treadle peek {where.id}`; {hint}")
    return terminal.NEEDS_A_PERSON


NOT_TAKEN = {
    "unseen": "the text was typed but is not seen in its input box, so Enter was not pressed",
    "in the box": "the text still stands in its input box after Enter, so it was not submitted",
    "no box": "its input box has vanished after Enter, so it is not known whether the text was submitted",
    "no work": "no work was seen after Enter, so it is not known whether the text was submitted",
}


def _not_submitted(where: Place, why: str) -> int:
    terminal.warn(f"treadle: {where.id}: {NOT_TAKEN[why]}")
    again = f"`treadle send {where.id} --enter` presses Enter; `treadle send {where.id} --replace TEXT` types again"
    then = again if why in ("unseen", "in the box") else "--anyway types and presses Enter whatever it shows"
    terminal.warn(f"  look with `treadle peek {where.id}`; {then}")
    return terminal.NOT_SUBMITTED


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    from treadle.io.files import read

    return read(path)


LITERAL = "treadle: a backslash in a text is typed as it is now; --escapes reads \\n, \\t, \\e and \\xHH as before"
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "e": b"\x1b", "\\": b"\\"}


def _text(words: str, escapes: bool) -> bytes:
    """The bytes to type. For one version, a text that was read otherwise before says so."""
    if not escapes and unescape(words) != os.fsencode(words):
        terminal.warn(LITERAL)
    return unescape(words) if escapes else os.fsencode(words)


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


# `treadle resize`.

RESIZE_HELP = """Change a terminal's size, overriding its resize policy.

treadle resize ID COLSxROWS
"""


@small(RESIZE_HELP, WHERE, words="terminals")
def resize_command(given: Arguments) -> int:
    name, size = given.exactly(2, "an id and a size such as 120x40")
    cols, x, rows = size.partition("x")
    if not (cols.isdigit() and x and rows.isdigit() and int(cols) <= 0xFFFF and int(rows) <= 0xFFFF):
        raise UsageError(f"{size!r} is not a size; write 120x40")
    with terminal.connect(terminal.place(given, name), timeout=2.0) as client:
        try:
            client.hello()
        except PeerStalled:
            pass  # a supervisor without our additions accepts the frame too
        client.resize(int(cols), int(rows))
        client.status()
    return 0
