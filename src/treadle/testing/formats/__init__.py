"""A scripted reply as a service would send it, in each of the four wire formats. Pure: no sockets here.

Every module has `asked(body)`, the text of the request; `events(play)`, the reply as server-sent events; `whole(play)`,
the same reply as one JSON document; and `failure(status, message)`, the body of an error.
"""

from typing import Any

import msgspec

from treadle.agent.messages import ToolCall
from treadle.agent.providers.script import ScriptedReply, UsageLine

encode = msgspec.json.Encoder().encode
HOLE = "\ufffc"


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One reply being given: `id` makes the identifiers in it unique, `turn` those of its calls."""

    reply: ScriptedReply
    model: str
    turn: int
    id: str

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.reply.calls(self.turn)

    @property
    def usage(self) -> UsageLine:
        return self.reply.usage or UsageLine()


def event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(data) + b"\n\n"


def around(template: bytes, texts: list[str]) -> list[bytes]:
    """One event per text, made by filling the gap in an encoded event: much faster than encoding each."""
    before, after = template.split(encode(HOLE))
    return [before + encode(text) + after for text in texts]


def halves(arguments: str) -> list[str]:
    """Arguments in the pieces in which they are streamed: at least two, so that a client that forgets to join fails."""
    step = max(1, (len(arguments) + 1) // 2) if len(arguments) < 64 else 32
    return [arguments[at : at + step] for at in range(0, len(arguments), step)]


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of typed parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [text_of(part.get("text") or part.get("content")) for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if part)
    return ""
