"""Types a text into a program as a careful person would: not while it asks, as a paste if possible, Enter last."""

import os
import time

from treadle.errors import ConfigError
from treadle.light import Any
from treadle.terminal.client import Client
from treadle.terminal.manners import as_paste
from treadle.terminal.times import SETTLE_MAX, SETTLED, SUBMITTED_MAX
from treadle.wire.terminal import frames as wire

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


def answer(client: Client, key: bytes) -> dict[str, Any] | None:
    """Answer what the program asks with one key. Returns None, or why not."""
    return _typed(client, key, wire.ANSWERS)


def _typed(client: Client, data: bytes, how: int) -> dict[str, Any] | None:
    """Type if the state allows it. If the state is changing, wait for it."""
    deadline = time.monotonic() + SETTLE_MAX / 1000
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
            f"a line of {longest} bytes would be cut: the program reads whole lines, of which the kernel keeps "
            f"{LINE_MAX} bytes",
            hint="put newlines into it, or give it to the program as a file",
        )
