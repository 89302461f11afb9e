"""Goes on with a session from the middle: what was said up to a line that a host names, and nothing after it.

Files stay as they are, and nothing is erased: the history says that a turn was taken back, then what of it is left.
"""

import msgspec

from treadle.agent.claude_lines import named_messages
from treadle.agent.messages import AssistantMessage, ChatMessage
from treadle.agent.records import (
    Cleared,
    Compacted,
    MessageRecord,
    Named,
    Pruned,
    Record,
    Rewound,
    Switched,
    TurnBegan,
    effective,
)
from treadle.agent.transcript import Transcript
from treadle.errors import NotFound

LEFT = (MessageRecord, TurnBegan, Pruned, Compacted, Cleared, Named, Switched)
"""What of a turn that ends early is said again. What was spent and backed up counts as it was."""


def cut_after(transcript: Transcript, uuid: str) -> list[Record]:
    """The records that make this line the last one of the conversation. Raises NotFound when there is no such line."""
    records = effective(transcript.records)
    for number, spoken, part, last in named_messages(transcript, uuid):
        begins = [at for at, one in enumerate(records[:number]) if isinstance(one, TurnBegan)]
        turn = records[begins[-1]] if begins else None
        if not isinstance(turn, TurnBegan):
            break
        left = [one for one in records[begins[-1] : number] if isinstance(one, LEFT)]
        rest = spoken if last else msgspec.structs.replace(spoken, message=_first_blocks(spoken.message, part))
        first = transcript.listing.prompt if len(begins) > 1 else ""
        listing = msgspec.structs.replace(transcript.listing, turns=len(begins) - 1, prompt=first)
        return [Rewound(turn=turn.turn, listing=listing), *left, rest]
    raise NotFound(
        f"no message {uuid} in session {transcript.header.id}",
        hint="the uuid of an assistant line of stream-json, or of a message that the SDK lists",
    )


def _first_blocks(message: ChatMessage, part: int) -> ChatMessage:
    """The message up to a block: its thinking, its text, then its calls."""
    if not isinstance(message, AssistantMessage):
        return message
    thinking = [one for one in message.thinking if one.text]
    if part < len(thinking):
        return msgspec.structs.replace(message, thinking=tuple(thinking[: part + 1]), text="", calls=())
    calls = part - len(thinking) - bool(message.text) + 1
    return msgspec.structs.replace(message, calls=message.calls[:calls])
