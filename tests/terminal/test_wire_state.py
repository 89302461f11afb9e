"""The state's byte on the wire: what was judged counts before the rhythm, within what the classifier may say."""

import pytest

from treadle.terminal.judge import Verdict
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.state import Accepted, WireState
from treadle.wire.terminal.frames import ACTIVE, IDLE, THINKING, TOOL_USE


def settled(kind: str, state: str, *, at: int = 5000) -> WireState:
    settings = TerminalSettings()
    settings.classifier = kind
    wire, accepted = WireState(settings, 0), Accepted(0)
    accepted.verdict, accepted.since = Verdict(state, "screen", ""), 4000
    wire.settle(accepted, at)
    return wire


@pytest.mark.parametrize(
    ("kind", "state", "byte"),
    [
        ("claude", "thinking", THINKING),
        ("claude", "tool_use", TOOL_USE),
        ("claude", "working", ACTIVE),
        ("claude", "idle", IDLE),
        ("claude", "submitted", THINKING),
        ("claude", "unknown", IDLE),
        ("simple", "thinking", ACTIVE),
        ("simple", "idle", IDLE),
        ("none", "thinking", IDLE),
    ],
)
def test_a_judged_state_is_said_in_the_classifiers_own_states(kind: str, state: str, byte: int) -> None:
    assert settled(kind, state).state == byte


def test_the_time_is_that_of_the_change_and_stays_while_nothing_changes() -> None:
    wire = settled("claude", "thinking")
    assert wire.since == 4000
    accepted = Accepted(0)
    accepted.verdict, accepted.since = Verdict("thinking", "screen", ""), 6000
    wire.settle(accepted, 7000)
    assert wire.since == 4000


def test_without_a_verdict_the_rhythm_of_its_output_counts() -> None:
    settings = TerminalSettings()
    settings.classifier = "simple"
    wire = WireState(settings, 0)
    wire.rhythm.output(10, 100)
    wire.settle(Accepted(0), 100)
    assert wire.state == ACTIVE and wire.hint(100) == "active" and wire.hint(100_000) == "idle"
