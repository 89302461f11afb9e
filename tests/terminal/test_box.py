"""What real agents show: which agent it is, and what is typed in its input box."""

import pytest

from tests.terminal.recordings import NAMES, load
from treadle.terminal import judge
from treadle.terminal.detectors import by_sight, named
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
def test_at_every_labelled_moment_the_agent_is_known_and_its_box_is_empty_or_holds_what_was_typed(name: str) -> None:
    recording, seen, at, title = load(name), set(), 0, ""
    detector, grid = named(recording.agent), Grid(*recording.size)
    for moment in recording.moments:
        grid.feed(recording.data[at : moment["byte"]])
        at = moment["byte"]
        title = moment.get("title", title)
        if moment is not recording.moments[-1] and any(grid.lines()):
            assert by_sight(title, "\n".join(grid.lines())) in (recording.agent, "")
        lines = grid.lines()[: grid.y + 1] if detector.box.cursor else grid.lines()
        text, cursor = judge.content(detector, lines), (grid.x, grid.y)
        empty = judge.is_empty(detector, lines, cursor)
        assert (text is None) == (empty is None)
        if empty is False:
            assert text
            seen.add(text)
    assert seen == TYPED.get(name, set())


def test_a_prompt_at_the_cursor_holds_what_is_behind_its_mark_also_over_several_lines() -> None:
    lines = ["─" * 20, "diff> tidy up the p", "diff> arser"]
    assert judge.content(named("aider"), lines) == "tidy up the p\narser"
    assert judge.holds(judge.content(named("aider"), lines), b"tidy up the parser")
    assert judge.content(named("aider"), [*lines, ""]) is None


def test_words_on_the_edge_of_a_box_are_no_text_of_it() -> None:
    text = "one word after the other " * 30
    lines = ["╭──────────── ↑ 18 more ─────────────╮", "│ > after the other one word         │"]
    lines += ["│   after the other                  │", "╰────────────────────────────────────╯", " scripted"]
    assert judge.content(named("kimi"), lines) == "after the other one word\nafter the other"
    assert judge.holds(judge.content(named("kimi"), lines), text.encode())


def test_a_placeholder_that_is_too_wide_for_its_box_is_no_text() -> None:
    lines = ["─" * 20, '❯ Try "edit', '  parser.py to..."', "─" * 20, "  ? for shortcuts"]
    assert judge.is_empty(named("claude"), lines, (2, 1))
    assert judge.is_empty(named("claude"), [lines[0], "❯ Then edit", *lines[2:]], (2, 1)) is False


def test_a_note_in_place_of_several_lines_is_our_text_and_other_words_are_not() -> None:
    lines = b"why?\n\ndef f(x):\n    if x:\n        return 1\n    return 2"
    for note in ("[Pasted text #1 +5 lines]", "[Pasted Text: 6 lines]", "[Pasted Content 60 chars]"):
        assert judge.holds(note, lines) and not judge.holds(f"{note} and more", lines)
        assert judge.holds(note, b"x" * 160) and not judge.holds(note, b"one line")
    assert not judge.holds("pasted by somebody else", lines)
