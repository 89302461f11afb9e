"""What counts as working, waiting, stalled and looping, and on what evidence."""

from typing import Any

import pytest

from treadle.fleet.liveness import LOOPS, judged, stuck, told

NOW = 1_000_000.0


def found(state: str = "running", heard: float = 0.1, more: dict[str, Any] | None = None, **activity: Any) -> Any:
    seen = {"doing": "model", "last_event": NOW, **activity}
    return {"state": state, "node": "n1", "heard_seconds_ago": heard, "lease": 5.0, "activity": seen, **(more or {})}


@pytest.mark.parametrize(
    "given, verdict",
    [
        (found(), "waiting for the provider"),
        (found(doing="setup"), "working"),
        (found(open_tools=["bash make"]), "waiting for a tool"),
        (found(heard=6.0), "lost"),
        (found("asking"), "waiting for a person"),
        (found(held="it is paused"), "held: it is paused"),
        (found(more={"over_budget": "spent"}), "waiting for a budget"),
        (found(last_event=NOW - 400), "stalled"),
        (found(last_event=NOW - 400, busy=NOW - 10), "waiting for the provider"),
        (found(last_event=NOW - 400, open_tools=["bash x"]), "stalled"),
        (found(last_event=NOW - 90, more={"stall": 60.0}), "stalled"),
        (found(repeats=LOOPS), "looping"),
        ({**found(), "activity": {}}, "starting"),
    ],
)
def test_each_state_has_its_verdict(given: dict[str, Any], verdict: str) -> None:
    assert judged(given, NOW)["verdict"] == verdict
    assert any(verdict in line for line in told(judged(given, NOW)))


def test_the_evidence_is_told_with_its_age() -> None:
    tree = {"processes": 3, "cpu": 1.5, "sockets": 2}
    shown = judged(found(open_tools=["bash make"], tree=tree, more={"collisions": {"o2": ["a.txt"]}}), NOW)["evidence"]
    assert "open tool: bash make" in shown and "3 processes, 1.5 s of CPU, 2 sockets" in shown
    assert "a.txt is changed by order o2 too" in shown and shown[:2] == ["heard 0.1 s ago", "last event 0.0 s ago"]


def test_what_waits_for_a_person_is_never_stuck() -> None:
    assert stuck({"last_event": NOW - 9999, "asks": 1}, now=NOW) == "" and stuck({}) == ""


def test_what_is_no_run_is_left_as_it_is() -> None:
    waiting = {"state": "queued", "waits": {"kind": "slot", "text": "all are taken"}, "place": 3, "nodes": ["n1: full"]}
    assert judged(waiting) is waiting
    assert told(waiting) == [
        "state     queued",
        "waits     all are taken (slot)",
        "place     3 in line",
        "node      n1: full",
    ]
