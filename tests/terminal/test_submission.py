"""What became of a submitted text: only what the program shows counts, and nothing is said before that."""

import pytest

from treadle.terminal import states
from treadle.terminal.judge import Verdict
from treadle.terminal.reports import Report
from treadle.terminal.submission import DIALOG, OVER, PASSED, TURN, AfterEnter, Submission, outcome
from treadle.terminal.times import QUIET


def submitted(text: bytes = b"run the tests") -> Submission:
    return Submission(text, 1000, turn=2, limit=20_000, output=50, seen=0, stopped=100)


def after(state: str, *, lines: tuple[str, ...] = (), quiet: int = QUIET, output: int = 60) -> AfterEnter:
    return AfterEnter(Verdict(state, "screen", ""), list(lines), (0, 0), quiet, output)


def test_a_dialog_a_turn_and_a_turn_that_was_over_before_it_was_seen() -> None:
    assert outcome(submitted(), after(next(iter(states.WAITING))), 1, None, None) == DIALOG
    assert outcome(submitted(), after(next(iter(states.AT_WORK))), 1, None, None) == TURN
    assert outcome(submitted(), after(states.IDLE), 2, None, None) == OVER


def test_a_dialog_alone_does_not_say_that_the_text_was_taken() -> None:
    mine, waiting = submitted(), next(iter(states.WAITING))
    outcome(mine, after(waiting), 1, None, None)
    assert not mine.confirmed
    outcome(mine, after(waiting, lines=("> run the tests",)), 1, None, None)
    assert mine.confirmed
    outcome(mine, after(waiting), 2, None, None)
    assert mine.confirmed


@pytest.mark.parametrize(("quiet", "output", "found"), [(QUIET, 60, OVER), (QUIET - 1, 60, ""), (QUIET, 50, "")])
def test_a_program_that_is_no_agent_is_over_when_it_has_written_and_is_quiet(
    quiet: int, output: int, found: str
) -> None:
    assert outcome(submitted(), after(states.IDLE, quiet=quiet, output=output), 1, None, None) == found


def test_where_no_prompt_is_seen_no_more_than_that_it_went_by_can_be_said() -> None:
    assert outcome(submitted(), after("unknown"), 1, None, None) == PASSED


@pytest.mark.parametrize(("state", "at", "found"), [("done", 1000, OVER), ("idle", 1000, OVER), ("done", 999, "")])
def test_a_report_counts_from_the_moment_of_the_enter_on(state: str, at: int, found: str) -> None:
    assert outcome(submitted(), after(states.IDLE, output=50), 1, None, Report("state file", state, "", at)) == found


def test_time_in_which_the_program_was_stopped_is_not_waited_for_it() -> None:
    assert submitted().waited(5000, 100) == 4000 and submitted().waited(5000, 1600) == 2500


@pytest.mark.parametrize(("text", "command"), [(b"/clear", True), (b"!ls", True), (b"clear", False), (b"", False)])
def test_a_command_of_the_program_is_known_by_its_first_letter(text: bytes, command: bool) -> None:
    assert submitted(text).is_command is command
