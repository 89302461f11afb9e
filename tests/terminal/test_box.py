"""What is typed in the input boxes of real agents."""

import pytest

from tests.terminal.recordings import NAMES, load
from treadle.terminal import judge
from treadle.terminal.detectors import named
from treadle.terminal.grid import Grid

TYPED = {
    "aider-start": {"hello there"},
    "claude-files": {"look at @", "look at @pa", "look at @parser.py"},
    "claude-menu": {"/", "/mo"},
    "claude-quit": {"/exit"},
    "cline-start": {"hello there"},
    "codex-quit": {"/quit"},
    "gemini-menu": {"/", "/mo"},
    "kimi-quit": {"/exit"},
    "pi-quit": {"/quit"},
}
"""What was typed and not yet submitted at a labelled moment of a recording; at all others the box was empty."""


@pytest.mark.parametrize("name", NAMES)
def test_at_every_labelled_moment_the_box_is_empty_or_holds_what_was_typed(name: str) -> None:
    recording, seen, at = load(name), set(), 0
    detector, grid = named(recording.agent), Grid(*recording.size)
    for moment in recording.moments:
        grid.feed(recording.data[at : moment["byte"]])
        at = moment["byte"]
        lines = grid.lines()[: grid.y + 1] if detector.box.cursor else grid.lines()
        text, cursor = judge.content(detector, lines), (grid.x, grid.y)
        empty = judge.is_empty(detector, lines, cursor)
        assert (text is None) == (empty is None)
        if empty is False:
            assert text
            seen.add(text)
    assert seen == TYPED.get(name, set())


def test_a_text_is_held_if_nothing_else_is() -> None:
    text = b"tidy up the parser, then run all of the tests\nand report"
    shown = "tidy up the\n  parser, then run all of the tests\nand report"
    assert judge.first_words(text) == "tidy up the parser, then run a"
    assert judge.holds(shown, text)
    for other in (f"half a thought {shown}", shown * 2, shown[:-3], None, ""):
        assert not judge.holds(other, text)
    assert judge.holds("!ls -l", b"!ls -l") and judge.holds("ls -l", b"!ls -l")


def test_a_prompt_at_the_cursor_holds_what_is_behind_its_mark_also_over_several_lines() -> None:
    lines = ["─" * 20, "diff> tidy up the p", "diff> arser"]
    assert judge.content(named("aider"), lines) == "tidy up the p\narser"
    assert judge.holds(judge.content(named("aider"), lines), b"tidy up the parser")
    assert judge.content(named("aider"), [*lines, ""]) is None


def test_of_a_long_text_the_beginning_or_a_note_is_enough() -> None:
    text = b"tidy up the parser " * 100
    assert judge.holds("tidy up the parser tidy up the parser", text)
    assert judge.holds("[Pasted text #1 +20 lines]", text) and not judge.holds("[Pasted text #1 +20 lines]", b"tidy")
