"""What may be typed into a program, and how: not while it asks, as a paste if possible, Enter last."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from treadle.errors import ConfigError, PeerExited
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal.states import ANSWERING, AT_WORK, SETTLE_MAX, SETTLED, STARTING, SUBMITTED, SUBMITTED_MAX, UNKNOWN
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.client import Client

# What may be typed into a program by a sender that does not see its screen.
#
# A text that was meant as a prompt must not answer a dialog: Enter presses its default button, and in some agents `1`
# and `y` choose "Yes" without Enter. So while a program waits for a person, only an answer is typed: one key, for the
# dialog that its sender has read (`state.Dialogs`). If Enter is to follow, the program must be at rest: while it works,
# a dialog may come between the moment in which we look and the moment in which it reads the key.

WAITING = ("permission", "question", "auth")
NO_ENTER = (UNKNOWN, STARTING, SUBMITTED, *AT_WORK)


def refusal(state: Mapping[str, object], data: bytes, enter: bool) -> str:
    """Why `data` must not be typed now: the state that forbids it, `settling` if the state is changing, or ""."""
    name = str(state.get("name"))
    if state.get("agent") and data[:1] != b"\x1b" and (b"\r" in data or b"\n" in data):
        enter = True
    if name in WAITING:
        return name
    if is_one_key(data) and not enter and not (state.get("settling") and state.get("dialog")):
        return ""
    if state.get("settling"):
        return "settling"
    return name if name == SUBMITTED or enter and name in NO_ENTER else ""


def answer_refusal(state: Mapping[str, object], data: bytes) -> str:
    """Why `data` must not be typed as an answer: `no question`, `settling`, `no key`, or "". Enter is one, if meant."""
    if state.get("settling"):
        return "settling"
    if state.get("name") not in WAITING:
        return "no question"
    return "" if data in (b"\r", b"\n") or data and is_one_key(data) else "no key"


def is_one_key(data: bytes) -> bool:
    """Whether it is one character, or the escape sequence of one key. Not Enter, which presses what is marked."""
    if data in (b"\r", b"\n"):
        return False
    if data[:1] == b"\x1b":
        body = data[1:]
        final = len(body) > 1 and 0x40 <= body[-1] <= 0x7E  # ECMA-48: what ends a sequence is none of Enter's bytes
        return not body or (body[:1] in b"[O" and final and body[1:-1].translate(None, b"0123456789;") == b"")
    try:
        return len(data.decode()) <= 1
    except UnicodeDecodeError:
        return False


def as_paste(data: bytes) -> bytes:
    """Text as a bracketed paste, which a program takes as a whole; for programs that support it (mode 2004).

    Single keys stay keys. So does text that begins like a command of the program, which it would not recognise in a
    paste.
    """
    if len(data) < 2 or data[:1] in b"/!@#" and b"\n" not in data:
        return data
    if data.translate(None, b"\t\n\r") and min(data.translate(None, b"\t\n\r")) < 0x20 or b"\x7f" in data:
        return data
    return b"\x1b[200~" + data + b"\x1b[201~"


# Typing a text as a careful person would.

LINE_MAX = 4095
"""How much of one unread line the kernel keeps."""
ENDS = ("refused", "unseen", "unsubmitted", "cancelled", "dead", "over")
"""The stages that nothing follows."""


def patience() -> float:
    """How many seconds a program may take to show that it has taken a prompt."""
    return float(os.environ.get("TREADLE_SUBMIT_SECONDS") or SUBMITTED_MAX / 1000)


def type_text(client: Client, detail: dict[str, Any], data: bytes, enter: bool, anyway: bool) -> dict[str, Any] | None:
    """Type the text, or submit it. Returns None, or why not with the state that forbids it."""
    if enter:
        answer = submit(client, detail, data, wire.AT_ANY_TIME if anyway else 0)
        return None if accepted(answer) else answer
    if detail["canonical"]:
        check_lines(data)
    elif detail["modes"].get("paste") and not data.endswith((b"\r", b"\n")):
        data = as_paste(data)
    return _typed(client, data, wire.ANYWAY if anyway else 0)


def answer(client: Client, key: bytes, to: str = "") -> dict[str, Any] | None:
    """Answer what the program asks, in the dialog with this id, with one key. Returns None, or why not."""
    return _typed(client, key, wire.ANSWERS, to)


def asked_again(client: Client, before: str) -> str:
    """The id of the dialog if the program asks the same as in this one, which was answered: it may have ignored the
    key. Empty as soon as it does something else, or when nothing has come of it for a while."""
    deadline = time.monotonic() + ANSWERING / 1000
    while before and time.monotonic() < deadline:
        try:
            now = client.detail()["state"].get("dialog") or ""
        except PeerExited:
            break
        if now != before:
            return now if now.partition("-")[2] == before.partition("-")[2] else ""
        time.sleep(0.05)
    return ""


def _typed(client: Client, data: bytes, how: int, to: str = "") -> dict[str, Any] | None:
    """Type if the state allows it. If the state is changing, wait for it."""
    deadline = time.monotonic() + SETTLE_MAX / 1000
    size = wire.FRAME_CAP // 2
    for at in range(0, len(data), size):
        while True:
            answer = client.type_in(data[at : at + size], how, to)
            if answer["typed"]:
                break
            if answer["why"] != "settling" or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)
    return None


def submit(client: Client, detail: dict[str, Any], data: bytes, how: int) -> dict[str, Any]:
    """Submit a text. Returns the stage that says whether the program has taken it."""
    if detail["canonical"]:
        check_lines(data)
    answer = client.prompt(data, how, patience())
    while not (answer["stage"] in ("taken", *ENDS) or accepted(answer)):
        answer = client.prompted()
    return answer


def accepted(answer: dict[str, Any]) -> bool:
    """Whether the program has taken the text. Of one that is not a known agent, Enter is all that can be known."""
    if answer["stage"] == "entered":
        return not answer["state"].get("agent")
    return answer["stage"] in ("taken", "over") and answer.get("confirmed", True)


def settle(client: Client) -> None:
    """Let the program draw the text before Enter: one that draws its own input takes both together for a paste."""
    deadline = time.monotonic() + SETTLE_MAX / 1000
    time.sleep(SETTLED / 2000)
    while client.status().idle_ms < SETTLED and time.monotonic() < deadline:
        time.sleep(0.02)


def check_lines(data: bytes) -> None:
    longest = max((len(line) for line in data.replace(b"\r", b"\n").split(b"\n")), default=0)
    if longest > LINE_MAX:
        raise ConfigError(
            f"a line of {longest} bytes would be cut: the program gets at most {LINE_MAX} bytes of a line",
            hint="put newlines into it, or give it to the program as a file",
        )
