"""The table of what can happen to an order of a plan, and the form in which happenings are stored."""

from typing import get_args

import msgspec
import pytest

from treadle.wire.goal import records

STATES, MOVES = set(get_args(records.StepState)), set(get_args(records.StepMove))


def test_every_state_and_every_move_is_in_the_table() -> None:
    reached = {*records.STEP.values(), "waiting"}
    assert reached == STATES and {move for _, move in records.STEP} == MOVES
    assert {state for state, _ in records.STEP} == STATES - {*records.MET}, "what has landed or was answered stays so"
    assert {*records.MET} < {*records.OVER} < STATES


@pytest.mark.parametrize("state", sorted(STATES))
def test_from_every_state_there_is_a_way_to_an_end(state: records.StepState) -> None:
    seen, left = set(), [state]
    while left:
        seen.add(now := left.pop())
        left += [after for (before, _), after in records.STEP.items() if before == now and after not in seen]
    assert seen & {*records.OVER}


def test_only_what_was_checked_or_has_nothing_to_land_ends_well() -> None:
    assert {before for (before, _), after in records.STEP.items() if after == "landed"} == {"landing"}
    assert {before for (before, _), after in records.STEP.items() if after == "answered"} == {"done", "approved"}
    boards = {before for before, move in records.STEP if move == "board"}
    assert boards == {"done", "approved", "reviewing"} and "red" not in boards


def test_each_happening_is_stored_under_a_name_of_its_own() -> None:
    kinds = get_args(records.AnyGoalEvent)
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len({*tags}) == len(kinds) and all(kind.__struct_config__.tag_field == "event" for kind in kinds)
    placed = records.StepPlaced(at=1.0, by="goal", step="o1", order="g-o1", fresh=False)
    checked = records.DoneChecked(at=2.0, seen=records.DoneSeen(tip="c" * 40, ok=False, output="1 failed"))
    for event in (placed, checked):
        assert msgspec.json.decode(msgspec.json.encode(event), type=records.AnyGoalEvent) == event  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"event": "vanished", "at": 1.0}', type=records.AnyGoalEvent)  # type: ignore[arg-type]
