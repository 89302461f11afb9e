"""Known traits of agents that speak the Agent Client Protocol, by the name that each gives in its greeting.

All of this was observed by running them. An unknown agent is taken at its word.
"""

from typing import Any

import msgspec

from treadle.wire.acp.content import text_of
from treadle.wire.acp.usage import Span

_COPILOT_MODES = "https://agentclientprotocol.com/protocol/session-modes#"


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    asking_mode: str | None = None
    """The mode in which it asks before it acts. Two agents start in one in which a model gives permission instead."""
    plan_mode: str | None = None
    options: dict[str, str] = {}
    """Settings that must have these values, for the same reason."""
    counts: Span = "session"
    """What the token counts in the answer to a prompt cover."""
    loads: bool = True
    """Whether `session/load` works. With one agent it destroys the session."""
    title_is_command: bool = False
    """Whether the title of a call that runs a command is that command; nothing else contains it."""
    failure: str | None = None
    """An answer that begins like this is an error: the agent ends failed turns as if they had succeeded."""
    refused: str | None = None
    """How a text begins with which it ends the turn after a call was denied."""
    known: bool = True

    def says_refused(self, update: dict[str, Any]) -> bool:
        if self.refused is None or update.get("sessionUpdate") != "agent_message_chunk":
            return False
        return text_of(update.get("content")).startswith(self.refused)


UNKNOWN = Traits(known=False)

TRAITS: dict[str, Traits] = {
    "gemini-cli": Traits(asking_mode="default", plan_mode="plan", counts="turn", loads=False, title_is_command=True),
    "OpenCode": Traits(asking_mode="build", plan_mode="plan", counts="step"),
    "qwen-code": Traits(asking_mode="default", plan_mode="plan", counts="turn"),
    "Copilot": Traits(
        asking_mode=f"{_COPILOT_MODES}agent",
        plan_mode=f"{_COPILOT_MODES}plan",
        options={"allow_all": "off"},
        counts="session",
        failure="Error:",
        refused="Info: Operation cancelled",
    ),
    "Kimi Code CLI": Traits(asking_mode="default", plan_mode="plan", counts="none"),
    "@agentclientprotocol/claude-agent-acp": Traits(asking_mode="default", plan_mode="plan", counts="turn"),
    "@agentclientprotocol/codex-acp": Traits(asking_mode="read-only", counts="turn"),
    "treadle": Traits(asking_mode="suggest", plan_mode="plan", counts="session"),
}


def traits_of(name: str) -> Traits:
    return TRAITS.get(name, UNKNOWN)
