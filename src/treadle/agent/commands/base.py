"""What a slash command is: a name, its arguments, one line of help, and what it does to a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from treadle.session import CommandResult

if TYPE_CHECKING:
    from treadle.agent.native import NativeSession

Run: TypeAlias = "Callable[[NativeSession, str], Awaitable[CommandResult]]"
"""(session, the text behind the name, unchanged) -> result."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    usage: tuple[str, ...] = ("",)
    """The forms its arguments can have."""
    help: str
    run: Run
    alone: Literal["never", "with arguments", "always"] = "never"
    """When it cannot run while a turn does, nor a turn while it does."""

    def must_be_alone(self, args: str) -> bool:
        return self.alone == "always" or (self.alone == "with arguments" and bool(args.strip()))

    @property
    def forms(self) -> list[str]:
        return [f"/{self.name} {arguments}".rstrip() for arguments in self.usage]


class WrongUse(Exception):
    """The arguments make no sense; `why` says how. The answer then also shows the right forms."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def said(message: str, *, ok: bool = True) -> CommandResult:
    return CommandResult(message=message, ok=ok)


def columns(rows: list[tuple[str, str]]) -> str:
    """Two columns; the second one of a row may be empty."""
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left.ljust(width)}  {right}".rstrip() for left, right in rows)
