"""What a log of internals (`TREADLE_LOG`) says about an event: what happened and who decided, never what was said."""

from treadle import events


def log_line(event: events.Event) -> str | None:
    """One line, or None for events that would only fill the log, such as text."""
    match event:
        case events.TurnStarted():
            return "turn started"
        case events.ToolStarted():
            return f"tool {event.name} started, call {event.call}"
        case events.ToolEnded():
            return f"tool call {event.call} {'succeeded' if event.ok else 'failed'}"
        case events.ToolDenied():
            return f"tool {event.name} denied by {event.by}: {event.reason}"
        case events.Asked():
            return f"asked {event.request} ({event.kind}) about {event.name or 'the person'}, deadline {event.deadline}"
        case events.Answered():
            return f"answered {event.request}: {event.decision} by {event.by}"
        case events.Retrying():
            return f"try {event.attempt} failed, next in {event.delay_ms} ms: {event.error.code} {event.error.message}"
        case events.ModelRouted():
            return f"routed to {event.model}"
        case events.Usage():
            return f"usage: {event.prompt_tokens} tokens in, {event.output_tokens} out"
        case events.ContextCompacted():
            return "context compacted"
        case events.TaskChanged():
            return f"task {event.task_id} {event.change}"
        case events.Warned():
            return f"warned ({event.code}): {event.message}"
        case events.Failed():
            return f"failed: {event.error.code} {event.error.message}"
        case events.TurnEnded():
            why = f": {event.error.code} {event.error.message}" if event.error else ""
            return f"turn ended as {event.outcome}{why}"
        case events.Closed():
            return "session closed"
        case _:
            return None
