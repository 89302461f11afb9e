"""What the log of internals says about an event: what happened and who decided, never what was said."""

import msgspec

from treadle import events
from treadle.events import Answered, Asked, ErrorInfo, Failed, Retrying, ToolDenied, ToolEnded, ToolStarted, TurnEnded
from treadle.sessions.session import log_line

SECRET = "what was said"


def test_who_decided_what_is_in_one_line() -> None:
    error = ErrorInfo(code="rate_limited", message="slow down")
    lines = {
        log_line(ToolStarted(call="c", name="bash", args={"command": SECRET})): "tool bash started, call c",
        log_line(ToolEnded(call="c", name="bash", ok=False, result=SECRET)): "tool call c failed",
        log_line(ToolDenied(call="c", name="bash", reason="x", by="mode")): "tool bash denied by mode: x",
        log_line(Answered(request="r", decision="deny", text=SECRET, by="ana")): "answered r: deny by ana",
        log_line(Retrying(attempt=2, delay_ms=50, error=error)): (
            "try 2 failed, next in 50 ms: rate_limited slow down"
        ),
        log_line(Failed(error=error)): "failed: rate_limited slow down",
        log_line(TurnEnded(turn="t", outcome="failed", text=SECRET, error=error)): (
            "turn ended as failed: rate_limited slow down"
        ),
        log_line(TurnEnded(turn="t", outcome="completed", text=SECRET)): "turn ended as completed",
    }
    assert list(lines) == list(lines.values())


def test_a_question_is_told_without_its_words() -> None:
    line = log_line(Asked(request="r", kind="permission", text=SECRET, name="bash", command=SECRET))
    assert line is not None and SECRET not in line and "asked r (permission) about bash" in line


def test_no_event_tells_what_was_said() -> None:
    """Each kind, with the same words in every text that it has."""
    for kind in events.AnyEvent.__args__:
        texts = {"text", "prompt", "result", "args", "command"} & {*kind.__struct_fields__}
        fields = dict.fromkeys(texts, SECRET)
        try:
            event = msgspec.convert({"type": kind.__struct_config__.tag, **fields}, kind)
        except msgspec.ValidationError:
            continue  # it needs more than words
        assert SECRET not in str(log_line(event)), kind
