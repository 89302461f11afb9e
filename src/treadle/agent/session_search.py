"""Finds stored sessions by what was said in them."""

from collections.abc import Iterator

import msgspec

from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.records import MessageRecord, decode
from treadle.agent.session_list import ListedSession
from treadle.agent.transcript import history_of
from treadle.errors import StorageError
from treadle.io.files import iter_lines

AROUND = 60
"""How many characters are shown on either side of a hit."""
SHOWN = 3
"""How many hits of one session are shown."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    session: ListedSession
    count: int
    """How many messages have all of the words."""
    excerpts: tuple[str, ...]


def search(words: list[str], entries: list[ListedSession], *, tools: bool = False) -> Iterator[Hit]:
    """Sessions with a message that has all of these words, in any case; each as soon as it is found.

    With `tools`, what tools answered is searched too.
    """
    wanted = [word.casefold() for word in words]
    for entry in entries:
        found = list(_in_session(entry, wanted, tools))
        if found:
            yield Hit(session=entry, count=len(found), excerpts=tuple(found[:SHOWN]))


def _in_session(entry: ListedSession, wanted: list[str], tools: bool) -> Iterator[str]:
    try:
        for line in iter_lines(history_of(entry.id)):
            for record in decode([line]):
                if isinstance(record, MessageRecord) and (
                    tools or isinstance(record.message, UserMessage | AssistantMessage)
                ):
                    text = record.message.text
                    if all(word in text.casefold() for word in wanted):
                        yield excerpt(text, wanted[0])
    except (OSError, StorageError):
        return


def excerpt(text: str, word: str) -> str:
    """The text around the first occurrence of a word, in one line."""
    line = " ".join(text.split())
    at = max(line.casefold().find(word), 0)
    start, end = max(0, at - AROUND), at + len(word) + AROUND
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
