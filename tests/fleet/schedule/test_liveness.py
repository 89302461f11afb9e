"""What counts as working, waiting, stalled and looping, and on what evidence."""

from typing import Any

import pytest
from msgspec.structs import replace

from treadle.fleet.schedule.liveness import BUSY_LEASES, LOOPS, STALLED_SECONDS, as_lines, judged, silent, stuck
from treadle.wire.fleet.messages import RunActivity, TreeSeen, Wait, Why
from treadle.wire.fleet.states import State

NOW = 1_000_000.0


def found(state: State = "running", heard: float = 0.1, more: dict[str, Any] | None = None, **activity: Any) -> Why:
    seen = RunActivity(**{"doing": "model", "last_event": NOW, **activity})
    return Why(state=state, node="n1", heard_seconds_ago=heard, lease=5.0, activity=seen, **(more or {}))


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
        (replace(found(), activity=RunActivity()), "starting"),
    ],
)
def test_each_state_has_its_verdict(given: Why, verdict: str) -> None:
    assert judged(given, NOW).verdict == verdict
    assert any(verdict in line for line in as_lines(judged(given, NOW)))


def test_the_evidence_is_told_with_its_age() -> None:
    tree = TreeSeen(processes=3, cpu=1.5, sockets=2)
    shown = judged(found(open_tools=["bash make"], tree=tree), NOW).evidence
    assert "open tool: bash make" in shown and "3 processes, 1.5 s of CPU, 2 sockets" in shown
    assert shown[:2] == ["heard 0.1 s ago", "last event 0.0 s ago"]


def test_what_waits_for_a_person_is_never_stuck() -> None:
    assert stuck(RunActivity(last_event=NOW - 9999, asks=1), now=NOW) == "" and stuck(RunActivity()) == ""


def test_what_is_no_run_is_left_as_it_is() -> None:
    waiting = Why(state="queued", waits=Wait(kind="slot", text="all are taken"), place=3, nodes=["n1: full"])
    assert judged(waiting) is waiting
    assert as_lines(waiting) == [
        "state     queued",
        "waits     all are taken (slot)",
        "place     3 in line",
        "node      n1: full",
    ]


@pytest.mark.parametrize(
    ("heard", "seen", "gone"),
    [
        (95.0, 0.0, False),
        (94.9, 0.0, True),
        (40.0, 95.0, False),
        (39.9, 95.0, True),
        (94.9, 94.9, True),
    ],
)
def test_a_runner_whose_process_is_seen_may_be_silent_for_longer(heard: float, seen: float, gone: bool) -> None:
    assert silent(100.0, heard, seen, 5.0) is gone and BUSY_LEASES == 12


def test_a_stall_begins_after_its_seconds_and_says_what_is_open() -> None:
    quiet = RunActivity(last_event=NOW - STALLED_SECONDS)
    assert stuck(quiet, now=NOW) == ""
    assert stuck(quiet, now=NOW + 1) == "stalled: nothing came from the agent for 301 s"
    open_ = replace(quiet, open_tools=["bash make", "read"])
    assert stuck(open_, 10.0, NOW) == "stalled: the tool bash make is open and its processes do nothing for 300 s"
    assert stuck(replace(quiet, busy=NOW - 10), 10.0, NOW) == ""
    loops = RunActivity(repeats=LOOPS, doing="ls", asks=1)
    assert stuck(loops) == "looping: the same call 6 times in a row: ls"
    assert "in a row: ?" in stuck(replace(loops, doing="")) and stuck(replace(loops, repeats=LOOPS - 1)) == ""
    assert stuck(RunActivity(last_event=1.0)).startswith("stalled"), "at the present time"
    assert judged(found(last_event=1.0)).verdict == "stalled" and judged(found(heard=5.0), NOW).verdict != "lost"


def test_evidence_has_only_what_was_seen() -> None:
    plain = judged(found(), NOW).evidence
    assert plain == ["heard 0.1 s ago", "last event 0.0 s ago"]
    assert judged(replace(found(), activity=RunActivity()), NOW).evidence == []
    more = {"over_budget": "all is spent", "stall": 5.0}
    full = judged(found(last_event=NOW - 60, busy=NOW - 30, more=more), NOW).evidence
    assert full == [
        "heard 0.1 s ago",
        "last event 60.0 s ago",
        "its processes worked 30 s ago",
        "stalled: nothing came from the agent for 30 s",
        "all is spent",
    ]
    unheard = judged(replace(found(last_event=0.0), heard_seconds_ago=None), NOW)
    assert unheard.evidence == ["heard 0.0 s ago", "last event 0.0 s ago"] and unheard.verdict != "lost"
