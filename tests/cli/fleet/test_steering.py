"""What steers orders, by unique beginnings of their ids and for programs."""

import re
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.fleet.commands import requested, stored, typed, typed_json
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import AnswerRecord, AskRecord
from treadle.wire.fleet.train import LeftOut, QueuedChange, TrainRecord
from treadle.wire.goal.records import GoalRecord, GoalStep

ASKED: list[tuple[tuple[str, ...], dict[str, Any], Any]] = [
    (("cancel", "ord"), {"do": "cancel", "order": "order1"}, [{"id": "order1"}]),
    (("cancel", "ord", "--why", "enough"), {"do": "cancel", "order": "order1", "why": "enough"}, [{"id": "order1"}]),
    (("pause",), {"do": "pause", "scope": "fleet"}, {"scope": "fleet", "paused": True}),
    (
        ("pause", "order:ord", "--now"),
        {"do": "pause", "scope": "order:order1", "now": True},
        {"scope": "order:order1", "paused": True},
    ),
    (
        ("pause", "label:ord", "--why=w"),
        {"do": "pause", "scope": "label:ord", "why": "w"},
        {"scope": "label:ord", "paused": True},
    ),
    (("resume",), {"do": "resume", "scope": "fleet"}, {"scope": "fleet", "paused": False}),
    (
        ("resume", "order:ord"),
        {"do": "resume", "scope": "order:order1"},
        {"scope": "order:order1", "paused": False},
    ),
    (
        ("set", "ord", "--priority", "0"),
        {"do": "set", "order": "order1", "priority": 0},
        {"id": "order1", "priority": 0, "limits": {}},
    ),
    (
        ("set", "ord", "--max-turns=2", "--max-tokens=3", "--max-usd=0", "--max-seconds=1", "--why=w"),
        {"do": "set", "order": "order1", "limits": {"seconds": 1.0, "turns": 2, "tokens": 3, "usd": 0.0}, "why": "w"},
        {"id": "order1", "priority": None, "limits": {"seconds": 1.0, "turns": 2, "tokens": 3, "usd": 0.0}},
    ),
    (
        ("budget", "--usd=5", "--tokens=7"),
        {"do": "budget", "scope": "fleet", "usd": 5.0, "tokens": 7},
        {"scope": "fleet", "usd": 5.0, "tokens": 7},
    ),
    (
        ("budget", "project:p", "--share=1"),
        {"do": "budget", "scope": "project:p", "share": 1.0},
        {"scope": "project:p", "share": 1.0},
    ),
    (
        ("limit", "agent:a", "3"),
        {"do": "limit", "scope": "agent:a", "most": 3},
        {"scope": "agent:a", "most": 3},
    ),
    (("limit", "agent:a"), {"do": "limit", "scope": "agent:a"}, {"scope": "agent:a", "most": None}),
]
"""What is typed, what the scheduler is asked, and what a program is told."""


async def test_what_is_typed_is_asked_of_the_scheduler_and_only_programs_are_told(bus: Bus) -> None:
    await stored(bus, "order1", state="queued")
    for words, asked, told in ASKED:
        assert await typed(*words) == "" and await requested(bus) == [asked]
        assert await typed_json(*words) == told and await requested(bus) == [asked]


async def test_what_cannot_be_meant_is_not_asked_of_the_scheduler(bus: Bus) -> None:
    order = await stored(bus, "order1", state="queued")
    for words in (("budget", "--share=0"), ("budget", "--share=1.1")):
        assert "is not in the range" in await typed(*words, code=2)
    assert "give --priority or a limit" in await typed("set", order, code=1)
    for words in (("pause", "order:"), ("resume", "nonsense")):
        assert "is not a scope" in await typed(*words, code=1)
    assert await requested(bus) == []


async def test_what_is_asked_is_shown_by_its_deadline_and_answered_as_typed(bus: Bus) -> None:
    assert await typed("approvals", both=True) == "Nothing waits for an answer.\n" and await typed("approvals") == ""
    now, asked = time.time(), {"kind": "permission", "command": "rm x", "text": "not shown", "agent": "native"}
    for name, deadline, more in (
        ("later", now + 5000, {"kind": "question", "text": "Which\none\x1b?", "default": "allow"}),
        ("first", now - 5, {"default": "deny"}),
        ("bare", now + 9000, {"kind": "question", "text": "", "default": "deny"}),
    ):
        await stored(bus, name, state="asking", open_ask=f"{name}.1")
        fields: dict[str, Any] = {**asked, "order": name, "number": 1, "title": f"the\n{name}", **more}
        await bus.put(f"ask.{name}.1", encode(AskRecord(asked_at=now - 130, deadline=deadline, **fields)))
    first, later, bare = re.split(r"(?m)^(?=\w)", await typed("approvals"))[1:]
    assert first == (
        "first  asked 2m ago by native: the first\n    rm x\n"
        "    treadle fleet answer first allow|deny   (deny by itself in 0 s)\n"
    )
    assert later.startswith("later  asked 2m ago by native: the later\n    Which\n    one\ufffd?\n    treadle fleet ")
    assert re.search(r"\(allow by itself in (4\d\d\d|5000) s\)$", later.strip()) and "    rm x\n" in bare
    assert [ask["order"] for ask in await typed_json("approvals")] == ["first", "later", "bare"]
    assert await typed("answer", "fir", "allow", "--text", "go on", "--scope", "session") == ""
    assert await typed_json("answer", "later", "deny") == {"id": "later", "decision": "deny"}
    found = [await bus.get(f"answer.{name}.1") for name in ("first", "later")]
    answers = [msgspec.json.decode(entry.value, type=AnswerRecord) for entry in found if entry]
    told = [(each.decision, each.text, each.scope) for each in answers]
    assert told == [("allow", "go on", "session"), ("deny", "", "once")]


async def test_one_verb_has_an_order_a_change_or_a_goal_done_again(bus: Bus, tmp_path: Path) -> None:
    await stored(bus, "red", state="failed")
    await stored(bus, "old", state="failed", retried_as="other")
    await stored(bus, "out", result={"commit": "c1"})
    await stored(bus, "rides", result={"commit": "c1"})
    await stored(bus, "work", result={"commit": "c1"})
    lost = LeftOut(order="out", kind="refused", why="w", at=1.0)
    riding = QueuedChange(order="rides", commit="c1", at=1.0)
    record = TrainRecord(repository="/r", branch="main", queue=(riding,), left_out=(lost,))
    await bus.put("train.t", encode(record))
    steps = {"a": GoalStep(state="dropped", orders=("g1-a",)), "b": GoalStep(state="landed", orders=("g1-b",))}
    await bus.put("goal.g1", encode(GoalRecord(id="g1", state="running", steps=steps)))
    for name, told in (
        (("--failed",), "does what red was to do"),
        (("out", "--anyway"), "out  is queued again for main"),
        (("work", "--text", "shorter"), "continues the work of work"),
        (("g1",), "g1 a  the goal tries it again"),
    ):
        assert told in await typed("again", *name)
    assert keys.TRAIN.read((await bus.get("train.t")).value, "train.t").queue[-1].anyway  # type: ignore[union-attr]
    for words, told in (
        (("rides",), "is on its way to main already: it waits"),
        (("g1",), "nothing of it was dropped"),
        ((), "there is nothing to retry"),
        (("red", "--text", " "), "there are no comments"),
        (("nowhere",), "there is no order"),
    ):
        assert told in await typed("again", *words, code=1)
