"""Replays a stored conversation as events, for the one who opens it again and wants to see what was said."""

from collections.abc import Callable, Iterable

import msgspec

from treadle.agent.messages import AssistantMessage, Image, ToolResult
from treadle.agent.records import Cleared, MessageRecord, Record, Rewound, TurnBegan
from treadle.events import Event, ImageFile, Message, ToolEnded, ToolStarted, TurnStarted
from treadle.policy.guess import access_of


def replay(records: Iterable[Record], image_file: Callable[[Image], ImageFile]) -> list[Event]:
    """What a person saw, without what was cleared or taken back. `image_file` returns where an image is."""
    turns: list[tuple[str, list[Event]]] = []
    for record in records:
        match record:
            case TurnBegan():
                turns.append((record.turn, [TurnStarted(prompt=record.prompt, turn=record.turn)]))
            case MessageRecord() if turns:
                turns[-1][1].extend(_events(record, image_file))
            case Cleared():
                turns.clear()
            case Rewound():
                before = next((place for place, (turn, _) in enumerate(turns) if turn == record.turn), len(turns))
                del turns[before:]
    return [event for _, events in turns for event in events]


def _events(record: MessageRecord, image_file: Callable[[Image], ImageFile]) -> list[Event]:
    message, found = record.message, list[Event]()
    if isinstance(message, AssistantMessage):
        found += [Message(text=block.text, kind="thinking") for block in message.thinking if block.text]
        found += [Message(text=message.text, model=message.model)] if message.text else []
        for call in message.calls:
            args = _arguments(call.arguments)
            access = access_of(call.name, args)
            found.append(
                ToolStarted(
                    call=call.id,
                    name=call.name,
                    args=args,
                    kind=access.kind,
                    paths=access.paths,
                    command=access.command,
                )
            )
    elif isinstance(message, ToolResult):
        images = tuple(map(image_file, message.images))
        ended = ToolEnded(call=message.call, name=message.name, result=message.text, ok=message.ok, images=images)
        found.append(ended)
    return found


def _arguments(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text
