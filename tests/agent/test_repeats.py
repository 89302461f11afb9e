"""Doom loops: the same step N times, or a cycle of two to four steps N times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.loop import Repeats
from treadle.agent.messages import ToolCall
from treadle.errors import LoopDetected


def step(arguments: str, name: str = "bash") -> list[ToolCall]:
    return [ToolCall(id="c", name=name, arguments=arguments)]


def test_the_third_identical_step_is_a_loop() -> None:
    repeats = Repeats(3)
    repeats.note(step('{"command":"ls"}'))
    repeats.note(step('{"command":"ls"}'))
    with pytest.raises(LoopDetected, match="the same tool calls came 3 times"):
        repeats.note(step('{ "command": "ls" }'))


def test_key_order_and_spacing_do_not_hide_a_repeat() -> None:
    repeats = Repeats(2)
    repeats.note(step('{"a":1,"b":2}'))
    with pytest.raises(LoopDetected):
        repeats.note(step('{ "b": 2, "a": 1 }'))


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_cycle_is_a_loop_when_it_has_come_round_often_enough(length: int) -> None:
    repeats = Repeats(3)
    steps = [step(f'{{"n":{number % length}}}') for number in range(length * 3)]
    for one in steps[:-1]:
        repeats.note(one)
    with pytest.raises(LoopDetected, match=f"cycle of {length}"):
        repeats.note(steps[-1])


def test_zero_turns_it_off() -> None:
    repeats = Repeats(0)
    for _ in range(50):
        repeats.note(step("{}"))


def test_malformed_arguments_repeat_too() -> None:
    repeats = Repeats(2)
    repeats.note(step("{broken"))
    with pytest.raises(LoopDetected):
        repeats.note(step("{broken"))


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(2, 4))
def test_a_loop_is_reported_exactly_when_the_last_steps_repeat(steps: list[int], threshold: int) -> None:
    def looping(seen: list[int]) -> bool:
        return any(
            len(seen) >= length * threshold and seen[-length * threshold :] == seen[-length:] * threshold
            for length in range(1, 5)
        )

    repeats, seen = Repeats(threshold), []
    for number in steps:
        seen.append(number)
        if looping(seen):
            with pytest.raises(LoopDetected):
                repeats.note(step(str(number)))
            return
        repeats.note(step(str(number)))


def test_the_same_calls_with_other_results_are_progress() -> None:
    repeats = Repeats(3)
    for number in range(20):
        repeats.note(step('{"command":"make status"}'), [f"{number} %"])


def test_whoever_polls_slowly_may_get_the_same_result_for_long() -> None:
    repeats = Repeats(3)
    for _ in range(59):
        repeats.note(step('{"command":"sleep 30; ./ready"}'), ["not yet"], 30.0)
    with pytest.raises(LoopDetected, match="came 60 times"):
        repeats.note(step('{"command":"sleep 30; ./ready"}'), ["not yet"], 30.0)


def test_calls_that_come_back_at_once_and_never_stop_are_a_loop_whatever_their_results() -> None:
    repeats = Repeats(3)
    for number in range(59):
        repeats.note(step('{"command":"date"}'), [str(number)])
    with pytest.raises(LoopDetected, match="60 times in a row, one right after the other"):
        repeats.note(step('{"command":"date"}'), ["59"])


def test_a_loop_is_told_with_its_numbers_and_what_to_do() -> None:
    repeats = Repeats(2)
    for number in (0, 1, 0):
        repeats.note(step(f'{{"n":{number}}}'))
    with pytest.raises(LoopDetected) as caught:
        repeats.note(step('{"n":1}'))
    assert caught.value.message == "the same cycle of 2 tool calls came 2 times in a row, with the same results"
    assert caught.value.details == {"loop_count": 2, "loop_threshold": 2, "cycle": 2}
    assert caught.value.hint == "say more exactly what to do, or raise `limits.repeats`"


@pytest.mark.parametrize(("seconds", "loops"), [(0.99, True), (1.0, False)])
def test_a_step_of_exactly_a_second_is_slow(seconds: float, loops: bool) -> None:
    repeats = Repeats(2)
    repeats.note(step("{}"), ["x"], seconds)
    if loops:
        with pytest.raises(LoopDetected):
            repeats.note(step("{}"), ["x"], seconds)
    else:
        repeats.note(step("{}"), ["x"], seconds)


def test_one_slow_step_of_a_cycle_makes_the_cycle_slow_and_another_tool_or_result_is_another_step() -> None:
    repeats = Repeats(2)
    for _ in range(4):
        repeats.note(step('{"n":1}'), [], 5.0)
        repeats.note(step('{"n":2}'))
    for name, results in (("bash", ["a", "b"]), ("bash", ["a\0c"]), ("glob", ["a", "b"]), ("bash", ["a"])):
        repeats.note(step("{}", name), results)


def test_many_calls_with_other_results_are_progress_when_one_of_them_was_slow() -> None:
    repeats = Repeats(2)
    for number in range(60):
        repeats.note(step("{}"), [str(number)], 1.0 if number % 30 == 15 else 0.0)
    negative = Repeats(-1)
    for _ in range(9):
        negative.note(step("{}"))
