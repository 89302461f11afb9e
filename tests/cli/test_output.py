"""Text of agents made fit to be shown, and `--json`."""

import io

import click
import pytest
from click.testing import CliRunner

from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import brief, colourful, first_line, one_line, printable, short_time
from treadle.events import ToolStarted


def test_what_acts_on_a_terminal_is_shown_and_not_obeyed() -> None:
    assert printable("\x1b]0;owned\x07\x9b2Jhi\u202e") == "\ufffd]0;owned\ufffd\ufffd2Jhi\ufffd"
    assert printable("a\tb\nc é 漢") == "a\tb\nc é 漢"
    assert one_line("a\tb\nc") == "a b c"


def test_a_call_is_told_by_its_command_or_its_arguments() -> None:
    assert brief(ToolStarted(call="c", name="bash", command="ls -l\nwc")) == "ls -l (+1 lines)"
    assert brief(ToolStarted(call="c", name="edit", args={"file_path": "a", "count": 3})) == "a 3"
    assert brief(ToolStarted(call="c", name="odd", args=[1])) == ""
    write = {"content": "x", "file_path": "a"}
    assert brief(ToolStarted(call="c", name="write", kind="write", args=write)) == "a"
    assert brief(ToolStarted(call="c", name="read", kind="read", args=write)) == "x a"
    assert brief(ToolStarted(call="c", name="write", kind="write", args={"file_path": 3})) == "3"
    assert brief(ToolStarted(call="c", name="many", args={"names": ["a", ["b", 1]], "n": None})) == "a, b, 1 None"


def test_a_long_text_is_told_by_its_first_line() -> None:
    assert first_line("  \n") == "(nothing)"
    assert first_line("x" * 200) == "x" * 99 + "…" and first_line("x" * 100) == "x" * 100
    assert first_line("one\ntwo\nthree\n") == "one (+2 lines)" and first_line(" one ") == "one"


def test_ages_are_short() -> None:
    told = [short_time(seconds) for seconds in (0, 119, 120, 7199, 7200, 172800)]
    assert told == ["0s", "119s", "2m", "120m", "2h", "2d"]


@pytest.mark.parametrize("hidden", ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u3164", "\u200d", "\ufe0f", "\U000e0061"])
def test_what_cannot_be_seen_is_shown_by_its_number(hidden: str) -> None:
    assert printable(f"rm{hidden} -r x") == f"rm<U+{ord(hidden):04X}> -r x"


def test_joiners_that_belong_to_a_text_stay() -> None:
    for text in ("\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f", "\u0645\u06cc\u200c\u0634\u0648\u062f"):
        assert printable(text) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_that_can_and_may_show_colours_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert colourful(Terminal()) and not colourful(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert colourful(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not colourful(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colourful(Terminal())


@click.command()
@json_option
def tell(as_json: bool) -> None:
    show_json({"asked": as_json, "names": ["é", "b"]})


def test_what_is_shown_is_indented_json_with_letters_as_they_are() -> None:
    assert (
        CliRunner().invoke(tell, ["--json"]).output == '{\n  "asked": true,\n  "names": [\n    "é",\n    "b"\n  ]\n}\n'
    )
