"""What is awaited, and since when."""

from treadle import events
from treadle.cli.chat.page import Progress, clock_words


def test_every_wait_has_a_name_and_its_own_clock() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    assert not progress.active and progress.says() == ""
    progress.begin()
    now[0] = 65.0
    assert progress.says().endswith("waiting for the model 1:05 (Esc interrupts)")
    for event, said in [
        (events.ThinkingDelta(text="x"), "the model, thinking 0:00"),
        (events.TextDelta(text="x"), "the model, writing 0:00"),
        (events.Usage(), "the model 0:00"),
        (events.ToolStarted(call="a", name="bash"), "bash 0:00"),
        (events.ToolStarted(call="b", name="grep"), "bash, grep 0:00"),
        (events.ToolEnded(call="a", name="bash", result=""), "grep 0:00"),
        (events.Asked(request="r", kind="permission", text="?"), "you 0:00"),
        (events.Answered(request="r", decision="allow"), "grep 0:00"),
        (events.ToolEnded(call="b", name="grep", result=""), "the model 0:00"),
        (
            events.Retrying(attempt=1, delay_ms=4000, error=events.ErrorInfo(code="x", message="m")),
            "another try, after 4 s 0:00",
        ),
        (events.TurnStarted(prompt="x"), "the model 0:00"),
    ]:
        progress.feed(event)
        ends = "" if isinstance(event, events.Asked) else " (Esc interrupts)"
        assert progress.says()[2:] == f"waiting for {said}{ends}"
    progress.feed(events.TurnEnded(outcome="completed", parent="agent_1"))
    assert progress.active, "a subagent's end is not the end"
    progress.feed(events.TurnEnded(outcome="completed"))
    assert not progress.active


def test_only_the_end_of_a_long_output_is_kept() -> None:
    progress = Progress()
    progress.feed(events.ToolStarted(call="a", name="bash"))
    for _ in range(100):
        progress.feed(events.ToolOutput(call="a", text="x" * 1000 + "\n"))
    assert 8000 < len(progress.output("a")) <= 8192
    assert progress.output("other") == ""


def test_time_in_words() -> None:
    assert [clock_words(seconds) for seconds in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "60:00"]


def test_output_is_gone_with_its_call_and_everything_with_the_turn() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    progress.begin("bash")
    now[0] = 0.99
    assert progress.says() == "⠧ waiting for bash 0:00 (Esc interrupts)"
    progress.begin("bash")
    now[0] = 1.5
    assert progress.says().endswith("0:01 (Esc interrupts)"), "the same wait goes on"
    for call in ("a", "b"):
        progress.feed(events.ToolStarted(call=call, name="bash"))
        progress.feed(events.ToolOutput(call=call, text="x"))
    progress.feed(events.ToolEnded(call="a", name="bash", result=""))
    assert (progress.output("a"), progress.output("b")) == ("", "x")
    progress.end()
    assert progress.output("b") == "" and not progress.active
    progress.feed(events.TurnStarted(prompt="x"))
    assert "waiting for the model " in progress.says()
