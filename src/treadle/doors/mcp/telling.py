"""How runs are reported to a client: what happened, what is asked, and the result. Plain JSON."""

from collections.abc import Iterable
from typing import Any

from treadle.doors.mcp.runs import AgentRun
from treadle.events import AnyEvent, Asked, FileChanged, Message, TextDelta, ToolDenied, ToolEnded, ToolStarted, Warned

LONGEST = 2000
"""How many characters of a tool's result the client gets; the agent has seen all of it."""
MOST = 40_000
"""How many characters one answer has at most, because a client's model has to read it."""


def outcome(run: AgentRun) -> dict[str, Any]:
    """The state of a run, with its result if it has one."""
    summary = run.summary()
    state: dict[str, Any] = {
        "run": run.id,
        "session": run.session.id,
        "agent": run.agent,
        "directory": run.cwd,
        "status": run.status,
    }
    if run.questions:
        state["questions"] = [question(asked) for asked in run.questions.values()]
    if run.busy:
        return state
    usage = summary.usage
    state["text"] = summary.text
    if usage.calls:
        counted = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        }
        state["usage"] = {name: value for name, value in counted.items() if value is not None}
    if summary.files:
        state["files"] = [{"path": file.path, "change": file.change} for file in summary.files]
    if summary.denials:
        state["denied"] = [f"{denial.name}: {denial.reason}" for denial in summary.denials]
    if summary.error is not None:
        state["error"] = {"code": summary.error.code, "message": summary.error.message}
    return state


def words(state: dict[str, Any]) -> str:
    """The same as text, for a model that sees only text: the answer first."""
    parts = [str(state["text"])] if state.get("text") else []
    parts.append(f"[run {state['run']}: {state['status']}]")
    parts += [f"[asks: {one['text']} (request {one['request']})]" for one in state.get("questions", [])]
    parts += [f"[{file['change']}: {file['path']}]" for file in state.get("files", [])]
    parts += [f"[denied: {denial}]" for denial in state.get("denied", [])]
    if "error" in state:
        parts.append(f"[error {state['error']['code']}: {state['error']['message']}]")
    return "\n".join(parts)[:MOST]


def question(asked: Asked) -> dict[str, Any]:
    shown: dict[str, Any] = {"request": asked.request, "kind": asked.kind, "text": asked.text}
    more = {"tool": asked.name, "command": asked.command, "paths": list(asked.paths), "options": list(asked.options)}
    return {**shown, **{name: value for name, value in more.items() if value}}


def happened(events: Iterable[AnyEvent], after: int) -> tuple[list[dict[str, Any]], int]:
    """The events after number `after` that a client needs, and the number of the last one reported."""
    found: list[dict[str, Any]] = []
    size, last, streamed = 0, after, False
    for event in events:
        if event.seq <= after:
            continue
        if size > MOST:
            break
        last = event.seq
        if isinstance(event, TextDelta) and event.parent is None:
            streamed = True  # all of it comes as one message later
            continue
        shown = _shown(event)
        if shown is not None:
            found.append(shown)
            size += sum(len(str(value)) for value in shown.values())
    if streamed and not found:
        found.append({"type": "writing"})
    return found, last


def _shown(event: AnyEvent) -> dict[str, Any] | None:
    match event:
        case Message(kind="text") if event.parent is None:
            return {"type": "text", "text": event.text[:MOST]}
        case ToolStarted():
            return {"type": "tool", "tool": event.name, "about": title(event)}
        case ToolEnded():
            return {"type": "result", "tool": event.name, "ok": event.ok, "text": event.result[:LONGEST]}
        case ToolDenied():
            return {"type": "denied", "tool": event.name, "reason": event.reason}
        case FileChanged():
            return {"type": "file", "path": event.path, "change": event.change}
        case Asked():
            return {"type": "asked", **question(event)}
        case Warned() if event.code != "gap":
            return {"type": "warning", "text": event.message}
    return None


def title(event: ToolStarted) -> str:
    return " ".join((event.command or ", ".join(event.paths) or "").split())[:200]


def progress(event: AnyEvent) -> str | None:
    """Progress worth reporting while a client waits."""
    match event:
        case ToolStarted():
            return f"{event.name}: {title(event)}".rstrip(": ")
        case Message(kind="text") if event.parent is None:
            return " ".join(event.text.split())[:200]
        case Asked():
            return f"asks: {event.text}"[:200]
        case ToolDenied():
            return f"not run: {event.name}: {event.reason}"[:200]
    return None
