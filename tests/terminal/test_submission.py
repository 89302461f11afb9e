"""What became of a submitted text: only what the program shows counts, and nothing is said before that."""

from typing import Any

import pytest

from treadle.terminal import states
from treadle.terminal.detectors import named
from treadle.terminal.judge import DIALOG, ENDED, PASSED, TURN, AfterEnter, Submission, Verdict, outcome
from treadle.terminal.reports import Report
from treadle.terminal.states import COMMAND_TAKEN, QUIET


def submitted(text: bytes = b"run the tests") -> Submission:
    return Submission(text, 1000, turn=2, limit=20_000, output=50, seen=0, stopped=100)


def after(state: str, *, lines: tuple[str, ...] = (), quiet: int = QUIET, output: int = 60) -> AfterEnter:
    return AfterEnter(Verdict(state, "screen", ""), list(lines), (0, 0), quiet, output)


def test_a_dialog_a_turn_and_a_turn_that_was_over_before_it_was_seen() -> None:
    assert outcome(submitted(), after(next(iter(states.WAITING))), 1, None, None) == DIALOG
    assert outcome(submitted(), after(next(iter(states.AT_WORK))), 1, None, None) == TURN
    assert outcome(submitted(), after(states.IDLE), 2, None, None) == ENDED


def test_a_dialog_alone_does_not_say_that_the_text_was_taken() -> None:
    mine, waiting = submitted(), next(iter(states.WAITING))
    outcome(mine, after(waiting), 1, None, None)
    assert not mine.confirmed
    outcome(mine, after(waiting, lines=("> run the tests",)), 1, None, None)
    assert mine.confirmed
    outcome(mine, after(waiting), 2, None, None)
    assert mine.confirmed


@pytest.mark.parametrize(("quiet", "output", "found"), [(QUIET, 60, ENDED), (QUIET - 1, 60, ""), (QUIET, 50, "")])
def test_a_program_that_is_no_agent_is_over_when_it_has_written_and_is_quiet(
    quiet: int, output: int, found: str
) -> None:
    assert outcome(submitted(), after(states.IDLE, quiet=quiet, output=output), 1, None, None) == found


def test_where_no_prompt_is_seen_no_more_than_that_it_went_by_can_be_said() -> None:
    assert outcome(submitted(), after("unknown"), 1, None, None) == PASSED


@pytest.mark.parametrize(("state", "at", "found"), [("done", 1000, ENDED), ("idle", 1000, ENDED), ("done", 999, "")])
def test_a_report_counts_from_the_moment_of_the_enter_on(state: str, at: int, found: str) -> None:
    assert outcome(submitted(), after(states.IDLE, output=50), 1, None, Report("state file", state, "", at)) == found


EDGE = "─" * 40
ASKED, ANSWERED, EMPTY = "❯ run the tests", "● Done.", (EDGE, "❯ ", EDGE)


@pytest.mark.parametrize(
    ("lines", "change", "found"),
    [
        ((ASKED, ANSWERED, *EMPTY), {}, ENDED),
        ((ASKED, "", ANSWERED, *EMPTY), {}, ENDED),
        ((ASKED, ANSWERED, *EMPTY), {"output": 50}, ""),
        ((ASKED, ANSWERED, *EMPTY), {"seen": 1}, ""),
        ((ASKED, *EMPTY), {}, ""),
        ((ANSWERED, ASKED, *EMPTY), {}, ""),
        ((ASKED, ANSWERED, ASKED, *EMPTY), {}, ""),
        ((ASKED, ANSWERED, EDGE, "❯ run the tests", EDGE), {}, ""),
        ((ANSWERED, *EMPTY), {}, ""),
        ((ASKED, ANSWERED), {}, ""),
        (EMPTY, {"text": b"/clear", "quiet": COMMAND_TAKEN}, ENDED),
        (EMPTY, {"text": b"/clear", "quiet": COMMAND_TAKEN - 1}, ""),
        ((EDGE, "❯ other", EDGE), {"text": b"/clear", "quiet": COMMAND_TAKEN}, ""),
        (EMPTY, {"text": b"/model x/y", "quiet": COMMAND_TAKEN}, ENDED),
        (EMPTY, {"text": b"/srv/work is full", "quiet": COMMAND_TAKEN}, ""),
        (("❯ /srv/work is full", ANSWERED, *EMPTY), {"text": b"/srv/work is full"}, ENDED),
        (("❯ - run the tests", ANSWERED, *EMPTY), {"text": b"* run `the` tests"}, ENDED),
        ((ASKED, ANSWERED, *EMPTY), {"text": b""}, ""),
        (("❯ ---", ANSWERED, *EMPTY), {"text": b"---"}, ""),
    ],
)
def test_an_agent_has_taken_a_text_when_it_stands_above_the_box_with_an_answer_below(
    lines: tuple[str, ...], change: dict[str, Any], found: str
) -> None:
    mine = Submission(
        change.get("text", b"run the tests"), 1000, turn=2, limit=9, output=50, seen=change.get("seen", 0), stopped=0
    )
    seen = after(states.IDLE, lines=lines, quiet=change.get("quiet", QUIET), output=change.get("output", 60))
    assert outcome(mine, seen, 1, named("claude"), None) == found


def test_an_agent_that_only_reports_to_be_idle_has_not_said_that_it_is_done() -> None:
    for state, found in (("done", ENDED), ("error", ENDED), ("idle", ""), ("working", "")):
        report = Report("state file", state, "", 1000)
        assert outcome(submitted(), after(states.IDLE, output=50), 1, named("claude"), report) == found
    for state, found in (("error", ENDED), ("working", "")):
        assert outcome(submitted(), after("unknown"), 1, None, Report("state file", state, "", 1000)) == found
