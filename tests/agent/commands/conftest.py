"""The commands, given to a native session."""

from treadle.agent.session import NativeSession
from treadle.session import CommandResult


async def ran(session: NativeSession, text: str, ok: bool = True) -> str:
    """What a command that starts no turn says."""
    name, _, args = text.partition(" ")
    result = await session.command(name, args)
    assert result is not None, f"/{name} is unknown"
    assert isinstance(result, CommandResult) and result.turn is None and result.ok is ok, result
    return result.message
