"""What a host may want of a session beyond the contract: the native agent offers it, a driven agent need not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from treadle.events import Usage
from treadle.session import Instructions, OwnTool, Session, Subagent, TurnId

if TYPE_CHECKING:
    from treadle.agent.hook_runs import HookStep
    from treadle.agent.mcp import ServersChanged


@runtime_checkable
class Extensible(Protocol):
    """A Session that can use tools inside its host's process."""

    async def add_tools(self, tools: tuple[OwnTool, ...]) -> None:
        """Call this before the first prompt."""
        ...


@runtime_checkable
class Adaptable(Protocol):
    """A Session whose host may configure more after it was opened, before the first prompt."""

    def adapt(self, *, instructions: Instructions | None = None, subagents: tuple[Subagent, ...] = ()) -> None:
        """Replace the instructions by these; add these subagents."""
        ...

    def add_rule(self, verdict: str, rule: str) -> None:
        """Add a permission rule for the rest of the session; the verdict is allow, ask or deny."""
        ...

    def context_parts(self) -> list[tuple[str, int]]:
        """What fills the context window now, with approximate tokens."""
        ...

    def restore_files(self, turn: TurnId) -> list[str]:
        """Restore every file that `turn` or a later one changed with a tool. Returns their paths."""
        ...

    def reserve_tool(self, name: str, *, there: bool) -> Callable[[dict[str, Any]], Awaitable[str]]:
        """A tool of an MCP server for the host and not for the model. With `there`, NotFound if it is missing."""
        ...

    async def switch_server(self, name: str, *, on: bool) -> None:
        """Offer the tools of an MCP server, reconnecting to it, or hide them. Raises NotFound."""
        ...

    async def set_servers(self, servers: dict[str, Any]) -> ServersChanged:
        """Have exactly these MCP servers beside those that the session was opened with."""
        ...

    async def judge(self, instructions: str, question: str, model: str) -> str:
        """What a model says to the question of a hook; empty: the session's own model."""
        ...

    def every_rule(self) -> list[tuple[str, str]]:
        """The permission rules that hold now, each with its verdict."""
        ...

    def place(self) -> str:
        """The directory that the session works in."""
        ...

    def may_read(self, path: str) -> bool:
        """Whether the agent may read this file without a question."""
        ...

    def earlier_usage(self) -> list[Usage]:
        """What the model services have counted so far, also before this session was resumed."""
        ...

    def begin_prompt(self) -> None:
        """A prompt of the host comes: hooks are told the same id until the next one."""
        ...

    def watch_hooks(self, watch: Callable[[HookStep], None]) -> None:
        """Tell when a command of a hook of the settings begins and ends."""
        ...

    def hook_facts(self) -> dict[str, Any]:
        """What every hook is told: session_id, transcript_path, permission_mode."""
        ...


def judge_of(session: Session) -> Callable[[str, str, str], Awaitable[str]] | None:
    return session.judge if isinstance(session, Adaptable) else None


def facts_of(session: Session) -> dict[str, Any]:
    """What a session's hooks are told; of a driven agent we know only its id."""
    return session.hook_facts() if isinstance(session, Adaptable) else {"session_id": session.id, "transcript_path": ""}
