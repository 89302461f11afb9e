"""A run for a person to read: what the model said and called, and what came back."""

from collections.abc import Iterable

import msgspec

from treadle.events import AnyEvent, Failed, Message, ToolDenied, ToolEnded, ToolStarted, TurnEnded, Usage, Warned

LONGEST = 1500


def written(events: Iterable[AnyEvent]) -> str:
    return "\n".join(line for event in events if (line := _line(event)))


def _line(event: AnyEvent) -> str:
    match event:
        case Message(text=text, kind="text"):
            return f"SAYS {_cut(text)}"
        case ToolStarted(name=name, args=args):
            return f"CALL {name} {_cut(msgspec.json.encode(args).decode())}"
        case ToolEnded(ok=ok, result=result):
            return f"{'GOT' if ok else 'FAILED'} {_cut(str(result))}"
        case ToolDenied(name=name, reason=reason):
            return f"DENIED {name}: {reason}"
        case Usage():
            counted = event.input_tokens, event.cache_read_tokens, event.output_tokens
            return f"     [{counted[0]} in, {counted[1]} cached, {counted[2]} out, {event.duration_ms / 1000:.1f} s]"
        case Warned(message=message):
            return f"NOTE {message}"
        case Failed() | TurnEnded():
            return f"END  {_cut(msgspec.json.encode(event).decode())}"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more]"
