"""Sizes and times go in, a state comes out; the test controls the clock."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.state import Claude, Nothing, Simple, classifier
from treadle.wire.terminal.frames import ACTIVE, IDLE, STREAMING, THINKING, TOOL_USE


def feed(claude: Claude, events: Iterable[tuple[int, int]]) -> int:
    for now, size in events:
        claude.output(size, now)
    return now


@pytest.mark.parametrize("name", ["simple", "claude", "none"])
def test_a_silent_program_is_idle_from_the_start(name: str) -> None:
    watch = classifier(name, 0)
    assert [watch.state(now) for now in (0, 1, 2999, 3000, 10_000)] == [IDLE] * 5
    assert watch.since == 0


def test_simple_is_active_until_the_threshold_of_silence() -> None:
    simple = Simple(0, threshold=3000)
    simple.output(1, 5000)
    assert (simple.state(5000), simple.state(7999), simple.since) == (ACTIVE, ACTIVE, 5000)
    assert simple.next_change(6000) == 8000
    assert (simple.state(8000), simple.since) == (IDLE, 8000)
    assert simple.next_change(9000) is None
    simple.output(1, 20_000)
    assert (simple.state(20_001), simple.since) == (ACTIVE, 20_000)
    simple.output(1, 22_999)
    assert simple.since == 20_000
    simple.output(1, 25_999)  # it was idle for a moment, at which no one looked
    assert simple.since == 25_999


def test_none_is_always_idle() -> None:
    nothing = Nothing(0)
    for now in range(0, 1000, 10):
        nothing.output(5000, now)
        assert nothing.state(now) == IDLE and nothing.next_change(now) is None


def test_a_full_read_is_tool_use() -> None:
    claude = Claude(0)
    now = feed(claude, [(0, 10), (100, 4096), (350, 10)])
    assert claude.state(now) == TOOL_USE


def test_a_burst_after_a_pause_is_tool_use() -> None:
    claude = Claude(0)
    now = feed(claude, [(0, 10), (10, 10), (300, 1500), (520, 10)])
    assert claude.state(now) == TOOL_USE


def test_a_pause_of_just_200_ms_or_a_burst_of_just_1024_bytes_is_not() -> None:
    for events in ([(0, 10), (10, 10), (210, 1500)], [(0, 10), (10, 10), (300, 1024)]):
        claude = Claude(0, debounce=0)
        now = feed(claude, events)
        assert claude.state(now) == THINKING


def even(gap: int, *sizes: int, count: int = 10) -> int:
    """The state after so many reads of these sizes in turn, with the same time between."""
    claude = Claude(0, debounce=0)
    return claude.state(feed(claude, [(number * gap, sizes[number % len(sizes)]) for number in range(count)]))


@pytest.mark.parametrize(
    ("gap", "sizes", "state"),
    [
        (100, (80,), THINKING),
        (100, (300,), STREAMING),
        (100, (20,), THINKING),
        (300, (300,), THINKING),
        (30, (110,), THINKING),
        (29, (110,), STREAMING),
        (20, (100,), THINKING),
        (20, (101,), STREAMING),
        (199, (150,), STREAMING),
        (200, (150,), THINKING),
        (100, (120,), THINKING),
        (100, (121,), STREAMING),
        (100, (80, 140), STREAMING),
        (100, (81, 139), THINKING),
        (100, (30, 130), THINKING),
        (100, (29, 131), STREAMING),
    ],
)
def test_text_is_told_from_a_spinner_by_size_evenness_and_pace(gap: int, sizes: tuple[int, ...], state: int) -> None:
    assert even(gap, *sizes) == state


def test_a_rhythm_needs_five_events_and_a_burst_three() -> None:
    assert (even(100, 300, count=4), even(100, 300, count=5)) == (THINKING, STREAMING)
    claude = Claude(0, debounce=0)
    assert claude.state(feed(claude, [(0, 10), (201, 1025)])) == THINKING
    claude = Claude(0, debounce=0)
    assert claude.state(feed(claude, [(0, 10), (10, 10), (211, 1025)])) == TOOL_USE


def test_fewer_than_three_events_are_thinking_after_the_debounce() -> None:
    claude = Claude(0)
    assert claude.next_change(0) is None
    claude.output(50, 1000)
    assert claude.next_change(1000) == 1200
    assert claude.state(1199) == IDLE
    assert claude.state(1200) == THINKING
    assert claude.since == 1200


def test_a_candidate_that_does_not_last_changes_nothing() -> None:
    claude = Claude(0)
    now = feed(claude, [(at, 80) for at in range(0, 1000, 100)])
    claude.output(5000, now + 100)
    assert claude.state(now + 150) == THINKING
    feed(claude, [(now + 160 + at, 80) for at in range(0, 60, 10)])
    assert claude.state(now + 220) == THINKING


def test_idle_comes_at_once_after_the_silence() -> None:
    claude = Claude(0)
    now = feed(claude, [(at, 80) for at in range(0, 1000, 100)])
    assert claude.next_change(now) == now + 3000
    assert claude.state(now + 2999) == THINKING
    assert (claude.state(now + 3000), claude.since) == (IDLE, now + 3000)


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
