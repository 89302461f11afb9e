"""What may be typed into a program by a sender that does not see its screen.

A text that was meant as a prompt must not answer a dialog: Enter presses its default button, and in some agents `1` and
`y` choose "Yes" without Enter. So while a program waits for a person, only a single key is typed, which must be meant
as an answer. If Enter is to follow, the program must be at rest: while it works, a dialog may come between the moment
in which we look and the moment in which it reads the key.
"""

from collections.abc import Mapping

from treadle.terminal.states import AT_WORK, STARTING, SUBMITTED, UNKNOWN

WAITING = ("permission", "question", "auth")
NO_ENTER = (UNKNOWN, STARTING, SUBMITTED, *AT_WORK)


def refusal(state: Mapping[str, object], data: bytes, enter: bool) -> str:
    """Why `data` must not be typed now: the state that forbids it, `settling` if the state is changing, or ""."""
    name = str(state.get("name"))
    if state.get("agent") and data[:1] != b"\x1b" and (b"\r" in data or b"\n" in data):
        enter = True
    if name in WAITING:
        return "" if not enter and is_one_key(data) else name
    if is_one_key(data) and not enter:
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
        return not body or (body[:1] in b"[O" and body[1:-1].translate(None, b"0123456789;") == b"" and len(body) > 1)
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
