"""Runs as a client is told them."""

import msgspec

from tests.stand_ins.sessions import ScriptedSession
from treadle.doors.mcp.door import LONGEST, MOST, AgentRun, happened, outcome, progress, question, words
from treadle.events import (
    AnyEvent,
    Asked,
    ErrorInfo,
    FileChanged,
    Message,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import SessionSpec
from treadle.sessions.totals import ServedTurn

ASKED = Asked(request="r1", kind="permission", text="may I?", name="bash", command="make", paths=("/w/a",))


async def run(*events: AnyEvent) -> AgentRun:
    made = AgentRun("run_1", ScriptedSession(SessionSpec.of(cwd="/w", session_id="s1"), []), "native", "/w")
    made._served = ServedTurn(made.session)
    made._served.adopt("t1")
    for number, event in enumerate((TurnStarted(prompt="go"), *events), 1):
        stamped = msgspec.structs.replace(event, seq=number, turn="t1", ts=float(number))
        made._served._take(stamped)
        made._take(stamped)
    return made


async def test_a_run_under_way_tells_what_it_is_and_what_it_asks() -> None:
    told = outcome(await run(ASKED))
    assert told == {
        "run": "run_1",
        "session": "s1",
        "agent": "native",
        "directory": "/w",
        "status": "waiting",
        "questions": [question(ASKED)],
    }
    assert words(told) == "[run run_1: waiting]\n[asks: may I? (request r1)]"


async def test_a_run_that_is_done_tells_its_result() -> None:
    told = outcome(
        await run(
            Usage(input_tokens=3, cache_read_tokens=4, output_tokens=2),
            FileChanged(path="/w/a", change="added"),
            ToolDenied(call="c", name="bash", reason="a rule"),
            TurnEnded(outcome="failed", text="so far", error=ErrorInfo(code="e", message="it broke")),
        )
    )
    assert told["usage"] == {"input_tokens": 7, "output_tokens": 2}, "what it cost is not known, and not told"
    assert told["files"] == [{"path": "/w/a", "change": "added"}] and told["denied"] == ["bash: a rule"]
    assert words(told).splitlines() == [
        "so far",
        "[run run_1: failed]",
        "[added: /w/a]",
        "[denied: bash: a rule]",
        "[error e: it broke]",
    ]


async def test_what_happened_is_told_from_a_point_on_and_says_where_to_read_on() -> None:
    made = await run(
        TextDelta(text="Lo"),
        Message(text="Look."),
        ToolStarted(call="c", name="bash", command="make\n all"),
        ToolEnded(call="c", name="bash", result="x" * (LONGEST + 1)),
        ToolDenied(call="d", name="write", reason="no"),
        FileChanged(path="/w/a", change="modified"),
        ASKED,
        Warned(message="careful"),
        Warned(message="missed", code="gap"),
        Message(text="hm", kind="thinking"),
    )
    events, last = happened(made.events, 0)
    assert [event["type"] for event in events] == ["text", "tool", "result", "denied", "file", "asked", "warning"]
    assert events[1]["about"] == "make all" and len(events[2]["text"]) == LONGEST
    assert last == 11 and happened(made.events, last) == ([], 11)
    assert [event["type"] for event in happened(made.events, 8)[0]] == ["warning"]


async def test_an_agent_that_is_writing_is_seen_to_write() -> None:
    assert happened((await run(TextDelta(text="Lo"))).events, 0)[0] == [{"type": "writing"}]


async def test_much_is_told_in_several_pieces() -> None:
    made = await run(*[Message(text="y" * MOST) for _ in range(3)])
    events, last = happened(made.events, 0)
    assert len(events) == 1 and len(happened(made.events, last)[0]) == 1


def test_nothing_longer_than_a_client_can_read_is_told() -> None:
    long = [Message(text="x" * MOST, seq=1), Message(text="y", seq=2), Message(text="z", seq=3)]
    found, last = happened(long, 0)
    assert [each["text"][:1] for each in found] == ["x"] and last == 1
    found, last = happened(long, 1)
    assert [each["text"] for each in found] == ["y", "z"] and last == 3
    assert happened(long, 3) == ([], 3)
    ended = ToolEnded(call="c", name="bash", ok=True, result="r" * (LONGEST + 1), seq=4)
    assert len(happened([ended], 0)[0][0]["text"]) == LONGEST
    writing = [TextDelta(text="a", seq=1), TextDelta(text="b", seq=2)]
    assert happened(writing, 0) == ([{"type": "writing"}], 2)
    assert happened([*writing, Message(text="ab", seq=3)], 0)[0] == [{"type": "text", "text": "ab"}]
    inner = [TextDelta(text="a", seq=1, parent="p"), Message(text="b", seq=2, parent="p")]
    assert happened(inner, 0) == ([], 2) and progress(inner[1]) is None
    gap = [Warned(code="gap", message="x", seq=1), Warned(code="other", message="y", seq=2)]
    assert happened(gap, 0)[0] == [{"type": "warning", "text": "y"}]
    assert progress(ToolStarted(call="c", name="bash")) == "bash"
    assert progress(ToolStarted(call="c", name="read", paths=("a", "b"))) == "read: a, b"
