"""Tells what a sender wrote from what the engine was made to send on.

The engine checks what each role may publish, but not where it delivers what someone asks it to read: a request to read
a stream may name any subject for the answer. So the one who may read a stream, and write anything to it, could have the
engine send any instruction. What comes from a stream is marked as such by the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.msg import Msg


def is_relayed(message: Msg) -> bool:
    """Whether the engine itself sent this message, out of a stream or as its own answer, and no client."""
    headers = message.headers or {}
    own = ("Nats-Stream", "Nats-Sequence", "Nats-Msg-Size", "Status", "Nats-Pending-Messages")
    return message.reply.startswith("$JS.") or any(name in headers for name in own)
