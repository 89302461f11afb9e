"""Sizes and times go in, a state comes out; the test controls the clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.state import classifier
from treadle.wire.terminal.frames import ACTIVE, IDLE, STREAMING, THINKING, TOOL_USE


@pytest.mark.parametrize("name", ["simple", "claude", "none"])
def test_a_silent_program_is_idle_from_the_start(name: str) -> None:
    watch = classifier(name, 0)
    assert [watch.state(now) for now in (0, 1, 2999, 3000, 10_000)] == [IDLE] * 5
    assert watch.since == 0


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 70_000)), max_size=80),
    st.sampled_from(["simple", "claude"]),
)
def test_any_rhythm_gives_known_states_and_time_that_goes_forward(steps: list[tuple[int, int]], name: str) -> None:
    watch, now, since = classifier(name, 0), 0, 0
    for pause, size in steps:
        now += pause
        watch.output(size, now)
        assert watch.state(now) in ({IDLE, ACTIVE} if name == "simple" else {IDLE, THINKING, STREAMING, TOOL_USE})
        assert since <= watch.since <= now
        since = watch.since
    assert watch.state(now + 3000) == IDLE
