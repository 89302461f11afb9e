"""What gets lost: for each agent and each wire, which of our events and fields do not arrive as they should.

What an agent does not report is on its card (`drivers/card.py`) and in its `AgentInfo`; what a wire cannot carry is
here. Anything listed in neither is native: the agent reports it and the wire carries it. The tables in the docs,
`treadle agents --losses` and the receipt of a run are all made from this.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from treadle.events import AnyEvent, Closed, Loss

NOTHING: Mapping[str, Loss] = {}
"""The losses of our own agent: none."""


def dropped(why: str) -> Loss:
    return Loss(level="dropped", why=why)


def emulated(why: str) -> Loss:
    return Loss(level="emulated", why=why)


_ONLY_ANSWER = dropped("this format has the answer alone")
_NO_EVENT = dropped("this wire has no message for it")
_EVENTS = tuple(kind.__name__ for kind in get_args(AnyEvent) if kind is not Closed)
FIELDS = ("Usage.cost_usd", "Usage.reasoning_tokens", "ToolStarted.kind", "CommandRun.exit_code", "Answered.text")
NAMES = (*_EVENTS, *FIELDS)
"""Every event, and the fields that some agent or wire is known to lose."""

_RESULT = emulated("summed up in the result")
_CLAUDE = {
    **dict.fromkeys(("ContextPruned", "ContextCompacted", "ContextHandoff", "Retrying", "ModelRouted"), _NO_EVENT),
    **dict.fromkeys(("FileChanged", "CommandRun", "ToolOutput", "ToolStarted.kind", "CommandRun.exit_code"), _NO_EVENT),
    "TurnStarted": _NO_EVENT,
    "Warned": emulated("a line on stderr"),
    "Failed": emulated("in the result, and a line on stderr"),
    "Usage": _RESULT,
    "Usage.cost_usd": _RESULT,
    "Usage.reasoning_tokens": _NO_EVENT,
    "Answered": emulated("the host knows what it answered"),
    "Answered.text": emulated("the host knows what it answered"),
}
WIRES: dict[str, dict[str, Loss]] = {
    "text": {name: _ONLY_ANSWER for name in NAMES if name != "TurnEnded"},
    "json": {
        **{name: _ONLY_ANSWER for name in NAMES if name != "TurnEnded"},
        **dict.fromkeys(("Usage", "Usage.cost_usd", "ToolDenied", "Failed"), _RESULT),
        "Warned": emulated("a line on stderr"),
    },
    "stream-json": {
        **_CLAUDE,
        "Message": emulated("with --verbose"),
        "ThinkingDelta": emulated("with --include-partial-messages"),
        "ToolStarted": emulated("with --verbose"),
        "ToolEnded": emulated("with --verbose"),
        "ToolDenied": emulated("with --verbose, and in the result"),
        "Warned": emulated("with --verbose, and a line on stderr"),
        "Asked": emulated("with --permission-prompt-tool stdio"),
    },
    "worker": {
        **dict.fromkeys(("ThinkingDelta", "ToolOutput", "FileChanged", "CommandRun"), _NO_EVENT),
        "Warned": emulated("when both ends have the extension `warnings`; otherwise a line on stderr"),
        **dict.fromkeys(("TaskChanged", "TaskGroupChanged", "Retrying", "Answered"), _NO_EVENT),
        **dict.fromkeys(("CommandRun.exit_code", "Answered.text", "ToolStarted.kind"), _NO_EVENT),
        "Asked": emulated("when both ends have the extension `answers`; otherwise a denial that says so"),
        "Message": emulated("what was not streamed is sent as one delta"),
        "ToolDenied": emulated("as permission_denied, with the reason"),
        "Usage.reasoning_tokens": _NO_EVENT,
    },
    "sidecar": {
        **dict.fromkeys(("ThinkingDelta", "ToolOutput", "Asked", "Answered", "Answered.text"), _NO_EVENT),
        **dict.fromkeys(("TaskChanged", "TaskGroupChanged", "ModelRouted", "ToolStarted.kind"), _NO_EVENT),
        **dict.fromkeys(("ContextPruned", "ContextCompacted", "ContextHandoff"), _NO_EVENT),
        "ToolDenied": emulated("a tool call with a result that is an error"),
        "Retrying": emulated("a warning"),
        "Usage": emulated("in the receipt"),
        "Usage.cost_usd": emulated("in the receipt"),
        "Usage.reasoning_tokens": _NO_EVENT,
    },
    "acp": {
        **dict.fromkeys(("ContextPruned", "ContextCompacted", "ContextHandoff", "Retrying", "ModelRouted"), _NO_EVENT),
        **dict.fromkeys(("TaskChanged", "TaskGroupChanged", "CommandRun", "TurnStarted", "Answered"), _NO_EVENT),
        **dict.fromkeys(("CommandRun.exit_code", "Answered.text"), _NO_EVENT),
        "Warned": emulated("a thought that is marked as a warning"),
        "Message": emulated("what was not streamed is sent as one chunk"),
        "FileChanged": emulated("a diff in the update of the tool call"),
        "ToolDenied": emulated("a tool call that failed"),
        "Failed": emulated("the error that answers the prompt"),
        "Usage": emulated("summed up in the answer to the prompt"),
        "Usage.cost_usd": emulated("in a usage update, where the cost is known"),
    },
    "app-server": {
        **dict.fromkeys(
            ("ContextPruned", "ContextHandoff", "ModelRouted", "TaskChanged", "TaskGroupChanged"), _NO_EVENT
        ),
        **dict.fromkeys(("Answered", "Answered.text", "Usage.cost_usd", "ToolStarted.kind"), _NO_EVENT),
        "TurnStarted": emulated("as turn/started and the item of the prompt"),
        "FileChanged": emulated("in the item of the call that changed it"),
        "CommandRun": emulated("in the item of the command"),
        "CommandRun.exit_code": emulated("in the item of the command"),
        "ToolDenied": emulated("an item that was declined, or that failed"),
        "Asked": emulated("as a request for approval, or for input"),
        "Failed": emulated("as an error, and in the end of the turn"),
        "Usage": emulated("as the usage of the thread"),
    },
    "codex-json": {
        **dict.fromkeys(
            ("TextDelta", "ThinkingDelta", "ContextPruned", "ContextCompacted", "ContextHandoff"), _NO_EVENT
        ),
        **dict.fromkeys(("ModelRouted", "TaskChanged", "TaskGroupChanged", "Answered", "Answered.text"), _NO_EVENT),
        **dict.fromkeys(("Usage.cost_usd", "ToolStarted.kind", "TurnStarted"), _NO_EVENT),
        "Asked": emulated("no one can be asked: a denial that says so"),
        "FileChanged": emulated("in the item of the call that changed it, without the diff"),
        "CommandRun": emulated("in the item of the command"),
        "CommandRun.exit_code": emulated("in the item of the command"),
        "ToolOutput": emulated("in the item of the command, when it has ended"),
        "ToolDenied": emulated("an item that failed"),
        "Failed": emulated("as an error, and in the end of the turn"),
        "Usage": emulated("summed up in the end of the turn"),
    },
    "mcp": {
        **{name: dropped("a tool's result is the answer alone") for name in NAMES if name != "TurnEnded"},
        "TextDelta": emulated("as progress"),
        "ToolStarted": emulated("as progress"),
        "Asked": emulated("as elicitation, or by the tools `status` and `answer`"),
        "Usage": _RESULT,
        "Usage.cost_usd": _RESULT,
    },
}

Level = Literal["native", "emulated", "dropped"]
_ORDER: tuple[Level, ...] = ("native", "emulated", "dropped")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one event or field with this agent over this wire."""

    name: str
    level: Level
    why: str = ""


def rows(losses: Mapping[str, Loss], wire: str | None) -> list[Row]:
    """Every event and field for an agent with these losses. None as the wire means our Python interface."""
    found = []
    for name in NAMES:
        lost = [loss for loss in (_of(losses, name), WIRES[wire].get(name) if wire else None) if loss is not None]
        levels: list[Level] = ["native", *(loss.level for loss in lost)]
        level = max(levels, key=_ORDER.index)
        why = "; ".join(dict.fromkeys(loss.why for loss in lost if loss.level == level))
        found.append(Row(name=name, level=level, why=why))
    return found


def _of(losses: Mapping[str, Loss], name: str) -> Loss | None:
    return losses.get(name) or losses.get(name.partition(".")[0])


def really_lost(losses: Mapping[str, Loss], wire: str | None, seen: Iterable[str]) -> list[Row]:
    """What was lost in one run: losses among the events that occurred, and whatever the agent never reports."""
    names = set(seen)
    lost = [row for row in rows(losses, wire) if row.level != "native"]
    return [row for row in lost if row.name.partition(".")[0] in names or _silent(losses, row.name)]


def _silent(losses: Mapping[str, Loss], name: str) -> bool:
    loss = _of(losses, name)
    return loss is not None and loss.level == "dropped"
