"""What a slash command is: a name, its arguments, one line of help, and what it does to a session.

Each group of commands declares in its own Protocol what it needs of a session, and knows nothing else about it.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, Literal, TypeVar

import msgspec

from treadle.session import CommandResult

S = TypeVar("S", contravariant=True)
"""What the command needs of a session."""


class SlashCommand(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    name: str
    usage: tuple[str, ...] = ("",)
    """The forms its arguments can have."""
    help: str
    run: Callable[[S, str], Awaitable[CommandResult]]
    """(session, the text after the name, unchanged) -> result."""
    alone: Literal["never", "with arguments", "always"] = "never"
    """When it cannot run during a turn, nor a turn during it."""

    def must_be_alone(self, args: str) -> bool:
        return self.alone == "always" or (self.alone == "with arguments" and bool(args.strip()))

    @property
    def forms(self) -> list[str]:
        return [f"/{self.name} {arguments}".rstrip() for arguments in self.usage]


class WrongUse(Exception):
    """The arguments make no sense; `why` says how. The answer then also shows the correct forms."""

    def __init__(self, why: str) -> None:
        self.why = why


def reply(message: str, *, ok: bool = True) -> CommandResult:
    return CommandResult(message=message, ok=ok)


def columns(rows: list[tuple[str, str]]) -> str:
    """Two columns; the second one of a row may be empty."""
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left.ljust(width)}  {right}".rstrip() for left, right in rows)
