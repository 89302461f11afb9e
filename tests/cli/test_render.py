"""What a person sees of a run."""

import io

from treadle.cli.render import Renderer, printable
from treadle.events import (
    ErrorInfo,
    Event,
    Failed,
    FileChanged,
    Message,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    Usage,
)
from treadle.sessions.totals import fold


def shown(*events: Event, colour: bool = False) -> str:
    out = io.StringIO()
    renderer = Renderer(out, colour=colour)
    for event in events:
        renderer.show(event)  # type: ignore[arg-type]
    return out.getvalue()


def test_streamed_text_is_shown_once_and_ends_its_line() -> None:
    assert shown(TextDelta(text="Hel"), TextDelta(text="lo"), Message(text="Hello")) == "Hello\n"


def test_text_that_was_not_streamed_is_shown_whole() -> None:
    assert shown(Message(text="Hello"), Message(text="again")) == "Hello\nagain\n"


def test_a_tool_is_one_line_and_its_result_another() -> None:
    text = shown(
        TextDelta(text="Looking"),
        ToolStarted(call="c", name="bash", command="ls -l\nwc"),
        ToolEnded(call="c", name="bash", result="a\nb\nc"),
    )
    assert text == "Looking\n● bash ls -l (+1 lines)\n  ⎿ a (+2 lines)\n"


def test_a_diff_is_shown_without_its_headers_and_not_endlessly() -> None:
    text = shown(FileChanged(path="a", change="modified", diff="--- a\n+++ b\n@@ -1 +1 @@\n" + "+x\n" * 50))
    assert "---" not in text and text.count("+x") == 23 and "27 more lines" in text


def test_colour_is_used_only_when_asked_for() -> None:
    denied = ToolDenied(call="c", name="bash", reason="no")
    assert "\x1b[33m" in shown(denied, colour=True) and "\x1b" not in shown(denied)


def test_what_a_subagent_says_is_not_mixed_in() -> None:
    assert shown(TextDelta(text="inner", parent="agent_1")) == ""


def test_escape_sequences_of_an_agent_do_not_reach_the_terminal() -> None:
    text = shown(TextDelta(text="\x1b]0;owned\x07\x9b2Jhi"), Failed(error=ErrorInfo(code="x", message="\x1b[2J")))
    assert "\x1b" not in text and "\x9b" not in text and "hi" in text
    assert printable("a\tb\nc é 漢") == "a\tb\nc é 漢"


def test_the_total_says_what_is_unknown() -> None:
    out = io.StringIO()
    Renderer(out, colour=False).total(fold([Usage(model="m", input_tokens=5, source="estimate")]))
    assert "about 5 tokens in" in out.getvalue() and "cost unknown" in out.getvalue()
