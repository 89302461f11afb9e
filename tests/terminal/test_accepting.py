"""A verdict that was seen once is not yet the state: another one must be held."""

import pytest

from treadle.errors import LocalError
from treadle.terminal import states
from treadle.terminal.judge import Verdict
from treadle.terminal.state import Accepted


def verdict(state: str, words: str = "") -> Verdict:
    return Verdict(state, "screen", words)


def test_the_first_verdict_counts_at_once_and_the_same_state_again_changes_nothing() -> None:
    accepted = Accepted(10)
    assert accepted.state == states.STARTING
    assert accepted.offer(verdict(states.IDLE), 20) is False
    assert accepted.offer(verdict(states.IDLE, "again"), 30) is False
    assert (accepted.state, accepted.candidate, accepted.since) == (states.IDLE, None, 10)
    assert accepted.verdict is not None and accepted.verdict.words == "again"


def test_another_state_counts_when_it_is_accepted_and_from_when_it_was_first_seen() -> None:
    accepted = Accepted(0)
    accepted.offer(verdict(states.IDLE), 0)
    assert accepted.offer(verdict(states.THINKING), 100) and accepted.state == states.IDLE
    assert accepted.offer(verdict(states.THINKING), 200) and accepted.candidate_since == 100
    accepted.accept()
    assert (accepted.state, accepted.since, accepted.candidate) == (states.THINKING, 100, None)


def test_a_candidate_that_gives_way_to_another_begins_its_time_anew_and_the_old_state_ends_it() -> None:
    accepted = Accepted(0)
    accepted.offer(verdict(states.IDLE), 0)
    accepted.offer(verdict(states.THINKING), 100)
    accepted.offer(verdict(states.PERMISSION), 200)
    assert accepted.candidate_since == 200
    assert accepted.offer(verdict(states.IDLE), 300) is False and accepted.candidate is None


def test_what_cannot_follow_is_not_accepted() -> None:
    accepted = Accepted(0)
    accepted.offer(verdict(states.DEAD), 0)
    accepted.offer(verdict(states.IDLE), 1)
    with pytest.raises(LocalError, match="dead does not become idle"):
        accepted.accept()
