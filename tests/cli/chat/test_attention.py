"""Calling a person who looks elsewhere: only as they asked for, only on a terminal, and no text ends it early."""

import io

import pytest

from treadle.cli.chat import talk
from treadle.cli.chat.talk import RESTORE_TITLE, SAVE_TITLE, Attention
from treadle.events import Asked


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(text: str) -> Asked:
    return Asked(request="r", kind="question", text=text)


def said(ways: tuple[str, ...], term: str = "xterm", text: str = "May it run?") -> str:
    out = Terminal()
    Attention(ways, out, {"TERM": term}).asked(asked(text))
    return out.getvalue()


def test_a_question_rings_notifies_and_is_in_the_title_as_was_asked_for() -> None:
    assert said(("bell",)) == "\a"
    assert said(("desktop",)) == "\x1b]9;treadle asks: May it run?\x1b\\"
    assert said(("desktop",), "foot-extra") == "\x1b]777;notify;treadle;treadle asks: May it run?\x1b\\"
    assert "\x1b]2;treadle: waits for you (" in said(("title",))
    assert said(()) == "" and said(("bell", "desktop", "title"), "dumb") == ""


def test_what_an_agent_writes_neither_ends_the_notification_nor_begins_another() -> None:
    told = said(("desktop",), text="a;b\x1b\\\x07\x1b]2;evil\nmore " + "x" * 500)
    assert told.count("\x1b") == 2 and told.count(";") == 1 and "\a" not in told and "\n" not in told
    assert len(told) < 220


def test_the_end_of_a_turn_is_news_only_when_it_took_long() -> None:
    out = Terminal()
    calling = Attention(("bell",), out, {"TERM": "xterm"})
    calling.rested()
    calling.working()
    calling.rested()
    assert out.getvalue() == ""
    calling.working()
    calling._began -= talk.LONG
    calling.working()  # the same turn goes on
    calling.rested()
    calling.rested()
    assert out.getvalue() == "\a"


def test_the_title_is_given_back_and_a_pipe_gets_nothing() -> None:
    out = Terminal()
    calling = Attention(("title",), out, {"TERM": "xterm"})
    calling.working()
    calling.close()
    assert out.getvalue().startswith(SAVE_TITLE) and out.getvalue().endswith(RESTORE_TITLE)
    pipe = io.StringIO()
    piped = Attention(("title", "bell", "desktop"), pipe, {"TERM": "xterm"})
    piped.asked(asked("x"))
    piped.close()
    assert pipe.getvalue() == ""


def test_the_title_says_what_goes_on_and_nothing_else_touches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    out = Terminal()
    calling = Attention(("title",), out, {"TERM": "xterm"})
    calling.working()
    calling.asked(asked("x"))
    calling.rested()
    calling.close()
    titles = [f"\x1b]2;treadle: {state} (/)\x1b\\" for state in ("working", "waits for you", "done")]
    assert out.getvalue() == "".join([SAVE_TITLE, *titles, RESTORE_TITLE])
    out = Terminal()
    calling = Attention(("bell",), out, {"TERM": "xterm"})
    calling.working()
    calling.close()
    assert out.getvalue() == ""
    out = Terminal()
    Attention(("title", "bell"), out, {}).asked(asked("x"))
    assert out.getvalue() == "", "a terminal that does not say what it is can do nothing"
