"""Types a text into a program as a careful person would: not while it asks, as a paste if possible, Enter last."""

import time

from treadle.errors import ConfigError, PeerExited
from treadle.light import Any
from treadle.terminal.client import Client
from treadle.terminal.manners import as_paste
from treadle.wire.terminal import frames as wire

SETTLED = 120
SETTLED_AGENT = 300
"""Milliseconds of silence before Enter. Gemini takes an Enter within 40 ms of a paste for part of the paste, and its
timer for that is late when it is busy."""
SETTLE_MAX = 3.0
LEAST = 0.05
WORDS = 30
"""How many characters of a text are searched for on the screen: so few are rarely wrapped."""
LINE_MAX = 4095
"""How much of one unread line the kernel keeps."""


def type_text(client: Client, detail: dict[str, Any], data: bytes, enter: bool, anyway: bool) -> dict[str, Any] | None:
    """Type the text, and Enter once the program has drawn it. Returns None, or why not with the forbidding state."""
    how = wire.ANYWAY if anyway else wire.PRESSES_ENTER if enter else 0
    text = data
    if detail["canonical"]:
        _check_lines(data)
    elif detail["modes"].get("paste") and (enter or not data.endswith((b"\r", b"\n"))):
        data = as_paste(data)
    if data and (refused := typed(client, data, how)):
        return refused
    if enter:
        if text:
            settle(client, text if detail["state"].get("agent") else b"")
        return typed(client, b"\r", how)
    return None


def typed(client: Client, data: bytes, how: int) -> dict[str, Any] | None:
    """Type if the state allows it. If the state is changing, wait for it."""
    deadline = time.monotonic() + SETTLE_MAX
    size = wire.FRAME_CAP // 2
    for at in range(0, len(data), size):
        while True:
            answer = client.type_in(data[at : at + size], how)
            if answer["typed"]:
                break
            if answer["why"] != "settling" or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)
    return None


def settle(client: Client, text: bytes = b"") -> None:
    """Let the program draw the text before Enter: one that draws its own input takes both together for a paste.

    A silent screen is not enough for an agent: on a busy machine it may not have begun to draw. So the `text` is
    searched for in its input box.
    """
    started = time.monotonic()
    silence = SETTLED_AGENT if text else SETTLED
    while (waited := time.monotonic() - started) < SETTLE_MAX:
        drawn = waited >= LEAST and client.status().idle_ms >= silence
        if drawn and (not text or in_box(client, text) is not False):
            return
        time.sleep(0.02)


def submitted(client: Client, text: bytes, turns: int, patience: float) -> bool:
    """Whether Enter took effect within this many seconds: the text leaves the agent's input box, or more than
    `turns` turns have begun."""
    deadline = time.monotonic() + patience
    try:
        while in_box(client, text) and client.detail()["state"].get("turns", 0) <= turns:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
    except PeerExited:
        pass  # it was the command that ends the program
    return True


def in_box(client: Client, text: bytes) -> bool | None:
    """Whether the text is in the agent's input box, possibly as a note about a paste; None when no box is seen."""
    box = client.explain().get("regions", {}).get("box", "")
    words = first_words(text)
    return (words in box or "pasted" in box.lower()) if words and box else None


def first_words(text: bytes) -> str:
    """The beginning of a text, as seen on a screen. A leading mark may be shown as a mode of the box instead."""
    return text.decode(errors="replace").strip().split("\n")[0].lstrip("/!#@&")[:WORDS].strip()


def _check_lines(data: bytes) -> None:
    longest = max((len(line) for line in data.replace(b"\r", b"\n").split(b"\n")), default=0)
    if longest > LINE_MAX:
        raise ConfigError(
            f"a line of {longest} bytes would be cut: the program reads whole lines, of which the kernel keeps "
            f"{LINE_MAX} bytes",
            hint="put newlines into it, or give it to the program as a file",
        )
