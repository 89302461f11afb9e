"""Each table of states: what it must not allow, and that all of it can be reached."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from treadle.wire.fleet.records import AnswerRecord, Attempt
from treadle.wire.fleet.states import (
    AT_WORK,
    ATTEMPT,
    ENDED,
    ORDER,
    QUESTION,
    Happening,
    IllegalMove,
    Outcome,
    State,
    moved,
)

TABLES: dict[str, tuple[Mapping[tuple[Any, Any], Any], str]] = {
    "order": (ORDER, "queued"),
    "attempt": (ATTEMPT, "placed"),
    "question": (QUESTION, "open"),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_from_the_first(name: str) -> None:
    table, first = TABLES[name]
    reached = {first}
    while more := {after for (state, _), after in table.items() if state in reached} - reached:
        reached |= more
    assert reached == {state for state, _ in table} | set(table.values())


def test_an_order_has_eight_states_and_an_end_has_no_way_out() -> None:
    assert {state for state, _ in ORDER} | set(ORDER.values()) == set(get_args(State))
    assert not [key for key in ORDER if key[0] in ENDED] and {*ENDED, *AT_WORK, "queued"} == set(get_args(State))
    for state in ENDED:
        for happening in get_args(Happening):
            with pytest.raises(IllegalMove):
                moved(ORDER, state, happening)


def test_nothing_is_done_that_was_not_placed_and_only_what_waits_is_skipped() -> None:
    assert ("queued", "done") not in ORDER and ("queued", "start") not in ORDER
    assert [state for state, happening in ORDER if happening == "skipped"] == ["queued"]
    assert {state for state, happening in ORDER if happening == "give_back"} == set(AT_WORK)


def test_an_attempt_ends_once() -> None:
    for outcome in get_args(Outcome):
        ended = Attempt(number=1, node="n", placed=1.0, started=2.0, outcome=outcome)
        assert ended.state == outcome and not [key for key in ATTEMPT if key[0] == outcome]
    assert Attempt(number=1, node="n", placed=1.0).state == "placed"
    assert Attempt(number=1, node="n", placed=1.0, started=2.0).state == "started"


def test_an_answer_counts_once() -> None:
    """A second answer, and taking back what the runner has taken, are not in the table."""
    given = AnswerRecord(decision="allow", by="ann")
    assert given.state == "answered" and AnswerRecord(withdrawn=1.0).state == "open"
    for state, happening in (("answered", "answer"), ("taken", "answer"), ("taken", "withdraw"), ("open", "take")):
        with pytest.raises(IllegalMove):
            moved(QUESTION, state, happening)  # type: ignore[misc]
