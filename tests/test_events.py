"""Events survive being written and read, and stay what they were."""

import pytest

from treadle import events
from treadle.events import (
    Asked,
    ContextCompacted,
    ErrorInfo,
    Failed,
    Retrying,
    Task,
    TaskChanged,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)

SAMPLES = [
    TextDelta(text="hé\n"),
    ToolStarted(call="c", name="bash", args={"command": "ls"}, kind="execute", command="ls"),
    Usage(model="m", input_tokens=3, cost_usd=None),
    Retrying(attempt=1, delay_ms=5, error=ErrorInfo(code="rate_limited", message="slow down", retry_after_ms=5)),
    TaskChanged(change="created", task_id="t", task=Task(id="t", kind="agent", label="x", status="queued")),
    Failed(error=ErrorInfo(code="x", message="y"), provider="p", parent="call_1", seq=4, ts=1.5, turn="t1"),
]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_reads_back_as_it_was(event: events.Event) -> None:
    assert events.decode(events.encode(event)) == event


def test_every_event_is_one_of_the_union_and_has_a_tag_of_its_own() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    tags = [kind.__struct_config__.tag for kind in kinds if kind is not events.Event]
    assert len(set(tags)) == len(tags)
    for kind in kinds:
        if kind is not events.Event:
            assert kind in events.AnyEvent.__args__  # type: ignore[attr-defined]


def test_what_is_not_said_is_that_a_tool_worked_and_that_nothing_more_is_possible() -> None:
    assert not ErrorInfo(code="x", message="y").retryable
    assert not Task(id="t", kind="agent", label="x", status="queued").unread
    assert ToolEnded(call="c", name="bash", result="").ok
    assert not Asked(request="r", kind="permission", text="?").changeable
    assert not ContextCompacted(tokens_before=2, tokens_after=1).asked
