"""Typing a text into a program as a careful person would: not while it asks, pasted where it can be, Enter last."""

from __future__ import annotations

import time

from treadle.errors import ConfigError, PeerExited
from treadle.light import TYPE_CHECKING
from treadle.terminal.client import Client
from treadle.terminal.manners import as_paste
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from typing import Any

SETTLED = 120
SETTLED_AGENT = 300
"""Milliseconds of silence before Enter. Gemini takes one within 40 ms of a paste for a part of it, and its timer for
that is late while it has much to do."""
SETTLE_MAX = 3.0
LEAST = 0.05
WORDS = 30
"""Letters of a text that are looked for on the screen: so few are seldom wrapped."""
LINE_MAX = 4095
"""What the kernel keeps of one line that a program has not read yet."""


def type_text(client: Client, detail: dict[str, Any], data: bytes, enter: bool, anyway: bool) -> dict[str, Any] | None:
    """Type the text, and Enter when the program has drawn it. None, or why not with the state that forbids it."""
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
    """Type when the state allows it. One that is just changing is waited for."""
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
    """Programs that draw their own input take text and Enter in one piece for a paste: let them draw the text first.

    A silent screen is not enough for an agent: on a busy machine it may not have begun to draw. There the `text` is
    looked for in its input box.
    """
    started = time.monotonic()
    silence = SETTLED_AGENT if text else SETTLED
    while (waited := time.monotonic() - started) < SETTLE_MAX:
        drawn = waited >= LEAST and client.status().idle_ms >= silence
        if drawn and (not text or in_box(client, text) is not False):
            return
        time.sleep(0.02)


def submitted(client: Client, text: bytes, turns: int, patience: float) -> bool:
    """Whether Enter was taken, within so many seconds: the text leaves the agent's input box, or another turn begins
    than the `turns` there were."""
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
    """Whether the text stands in the agent's input box, also as the note of a paste; None where no box is seen."""
    box = client.explain().get("regions", {}).get("box", "")
    words = first_words(text)
    return (words in box or "pasted" in box.lower()) if words and box else None


def first_words(text: bytes) -> str:
    """The beginning of a text, as it is seen on a screen. A mark in front may be shown as a mode of the box."""
    return text.decode(errors="replace").strip().split("\n")[0].lstrip("/!#@&")[:WORDS].strip()


def _check_lines(data: bytes) -> None:
    longest = max((len(line) for line in data.replace(b"\r", b"\n").split(b"\n")), default=0)
    if longest > LINE_MAX:
        raise ConfigError(
            f"a line of {longest} bytes would be cut: the program reads whole lines, of which the kernel keeps "
            f"{LINE_MAX} bytes",
            hint="put newlines into it, or give it to the program as a file",
        )
