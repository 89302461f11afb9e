"""What is typed in the input boxes of real agents."""

import pytest

from tests.terminal.recordings import NAMES, load
from treadle.terminal import box
from treadle.terminal.detectors import named
from treadle.terminal.grid import Grid

TYPED = {
    "claude-files": {"look at @", "look at @pa", "look at @parser.py"},
    "claude-menu": {"/", "/mo"},
    "claude-quit": {"/exit"},
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
        text, cursor = box.content(detector, grid.lines()), (grid.x, grid.y)
        empty = box.is_empty(detector, grid.lines(), cursor)
        assert (text is None) == (empty is None)
        if empty is False:
            assert text
            seen.add(text)
    assert seen == TYPED.get(name, set())


def test_a_text_is_held_if_nothing_is_before_it() -> None:
    words = box.first_words(b"  tidy up the parser, then run all of the tests\nand report")
    assert words == "tidy up the parser, then run a"
    assert box.holds("tidy up the\n  parser, then run all", words)
    assert not box.holds("half a thought tidy up the parser, then run all", words)
    assert not box.holds(None, words) and not box.holds("", words)
    assert box.holds("[Pasted text #1 +20 lines]", words)
    assert box.holds("!ls -l", box.first_words(b"!ls -l")) and box.holds("ls -l", box.first_words(b"!ls -l"))


def test_words_are_counted_where_they_were_broken_too() -> None:
    assert box.count("a b", ["xa", "> a  b", "ab", "b a"]) == 2 and box.count("", ["x"]) == 0
