"""What a log of internals (`TREADLE_LOG`) says about an event: what happened and who decided, never what was said."""

from treadle.events import (
    Answered,
    Asked,
    Closed,
    ContextCompacted,
    Event,
    Failed,
    ModelRouted,
    Retrying,
    TaskChanged,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)


def log_line(event: Event) -> str | None:
    """One line, or None for events that would only fill the log, such as text."""
    match event:
        case TurnStarted():
            return "turn started"
        case ToolStarted():
            return f"tool {event.name} started, call {event.call}"
        case ToolEnded():
            return f"tool call {event.call} {'succeeded' if event.ok else 'failed'}"
        case ToolDenied():
            return f"tool {event.name} denied by {event.by}: {event.reason}"
        case Asked():
            return f"asked {event.request} ({event.kind}) about {event.name or 'the person'}, deadline {event.deadline}"
        case Answered():
            return f"answered {event.request}: {event.decision} by {event.by}"
        case Retrying():
            return f"try {event.attempt} failed, next in {event.delay_ms} ms: {event.error.code} {event.error.message}"
        case ModelRouted():
            return f"routed to {event.model}"
        case Usage():
            return f"usage: {event.prompt_tokens} tokens in, {event.output_tokens} out"
        case ContextCompacted():
            return "context compacted"
        case TaskChanged():
            return f"task {event.task_id} {event.change}"
        case Warned():
            return f"warned ({event.code}): {event.message}"
        case Failed():
            return f"failed: {event.error.code} {event.error.message}"
        case TurnEnded():
            why = f": {event.error.code} {event.error.message}" if event.error else ""
            return f"turn ended as {event.outcome}{why}"
        case Closed():
            return "session closed"
        case _:
            return None
