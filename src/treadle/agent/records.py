"""The records of a session's history: one per line, distinguished by `type`."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import TypeAlias

import msgspec

from treadle.agent.messages import ChatMessage
from treadle.events import Usage

FORMAT = 1
LISTED = 500
"""How many characters of a prompt a list needs at most."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="session"):
    format: int
    id: str
    cwd: str
    model: str
    created: float
    version: str
    name: str | None = None
    forked_from: str | None = None
    denied: tuple[str, ...] = ()
    """The deny rules that it began with, besides those of the settings. They hold when it is resumed or forked."""


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    message: ChatMessage
    turn: str = ""
    ts: float = 0.0


class TurnBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_began"):
    turn: str
    prompt: str
    ts: float = 0.0


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What the list of sessions shows of one. Records that end something carry it, so that the list need only read
    the end of a history.
    """

    model: str
    name: str | None = None
    prompt: str = ""
    """The beginning of the first prompt."""
    turns: int = 0


class TurnOver(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_over"):
    turn: str
    outcome: str
    ts: float = 0.0
    listing: Listing | None = None


class Spent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="spent"):
    usage: Usage


class Pruned(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="pruned"):
    calls: tuple[str, ...]


class Compacted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compacted"):
    """The view is now this summary and the last `retained` messages of what it was."""

    summary: str
    retained: int = msgspec.field(name="kept")


class Cleared(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cleared"):
    pass


class Rewound(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rewound"):
    """The conversation is as it was before `turn` began."""

    turn: str
    listing: Listing | None = None


class BackedUp(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="backed_up"):
    """What `path` held before `turn` first changed it; without a blob, it did not exist."""

    turn: str
    path: str
    blob: str | None
    mode: int = 0o644


class Named(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="named"):
    name: str


class Switched(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="switched"):
    """From here on another model answers."""

    model: str


Record: TypeAlias = (
    Header
    | MessageRecord
    | TurnBegan
    | TurnOver
    | Spent
    | Pruned
    | Compacted
    | Cleared
    | Rewound
    | BackedUp
    | Named
    | Switched
)


@cache
def _decoder() -> msgspec.json.Decoder[Record]:
    """Made when a history is read, because making it takes longer than everything else about a new one."""
    return msgspec.json.Decoder(Record)


def decode(lines: Iterable[bytes]) -> list[Record]:
    """The records among these lines; others are left out."""
    records: list[Record] = []
    for line in lines:
        with suppress(msgspec.DecodeError, RecursionError):
            records.append(_decoder().decode(line))
    return records


def effective(records: list[Record]) -> list[Record]:
    """The records without what was rewound."""
    remaining: list[Record] = []
    for record in records:
        if isinstance(record, Rewound):
            for index in range(len(remaining) - 1, -1, -1):
                found = remaining[index]
                if isinstance(found, TurnBegan) and found.turn == record.turn:
                    del remaining[index:]
                    break
        else:
            remaining.append(record)
    return remaining


def listing_of(header: Header, records: list[Record]) -> Listing:
    listing = Listing(model=header.model, name=header.name)
    for record in records:
        if isinstance(record, Named | Switched):
            listing = listed(listing, record)
    turns = [record for record in effective(records) if isinstance(record, TurnBegan)]
    prompt = turns[0].prompt[:LISTED] if turns else ""
    return msgspec.structs.replace(listing, turns=len(turns), prompt=prompt)


def listed(listing: Listing, record: Record) -> Listing:
    """What the list shows after one more record."""
    match record:
        case TurnBegan(prompt=prompt):
            first = listing.prompt if listing.turns else prompt[:LISTED]
            return msgspec.structs.replace(listing, turns=listing.turns + 1, prompt=first)
        case Named(name=name):
            return msgspec.structs.replace(listing, name=name)
        case Switched(model=model):
            return msgspec.structs.replace(listing, model=model)
        case TurnOver(listing=Listing() as last) | Rewound(listing=Listing() as last):
            return last
    return listing
