"""Which state can follow which."""

from treadle.terminal.states import STARTING, TRANSITIONS, WAITING


def test_what_was_at_rest_or_at_work_does_not_start_again() -> None:
    assert {state for state, others in TRANSITIONS.items() if STARTING in others} == {*WAITING, "unknown"}
