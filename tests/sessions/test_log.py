"""Events are logged with their numbers, and read again from any of them; no log tells what was said."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.events import Event, TaskChanged, TextDelta, ToolEnded, ToolStarted, Warned
from treadle.sessions.session import LATEST, EventLog


def filled(count: int, window: int = 8, keep: int = 16) -> EventLog:
    log = EventLog(clock=lambda: 1.0, window=window, keep=keep)
    for number in range(count):
        log.append(TextDelta(text=str(number)), "t")
    return log


async def test_a_lossless_reader_a_window_behind_holds_the_session_until_it_reads() -> None:
    log = filled(0)
    reader = log.read()
    for _ in range(8):
        await asyncio.wait_for(log.room(), 60)
        log.append(TextDelta(text="x"), "t")
    held = asyncio.create_task(log.room())
    await asyncio.sleep(0)
    assert not held.done()
    assert len(await reader.batch()) == 8
    await asyncio.wait_for(held, 60)


async def test_a_forgotten_or_closed_reader_lets_go_of_the_session() -> None:
    log = filled(0)
    reader, other = log.read(), log.read()
    for _ in range(8):
        log.append(TextDelta(text="x"), "t")
    held = asyncio.create_task(log.room())
    await asyncio.sleep(0)
    other.close()
    await asyncio.sleep(0)
    assert not held.done()
    del reader
    await asyncio.wait_for(held, 60)


@given(st.lists(st.sampled_from(["append", "batch", "next"]), max_size=60))
def test_however_it_reads_a_lossless_reader_sees_every_event_once_in_order(actions: list[str]) -> None:
    async def play() -> None:
        log = filled(0, window=100, keep=100)
        reader = log.read()
        seen, made = [], 0
        for action in actions:
            if action == "append":
                made += 1
                log.append(TextDelta(text="x"), "t")
            elif len(seen) < made:
                got = await reader.batch() if action == "batch" else [await anext(reader)]
                seen += [event.seq for event in got]
        log.close()
        seen += [event.seq async for event in reader]
        assert seen == list(range(1, made + 1))

    asyncio.run(play())


async def test_long_texts_are_forgotten_once_every_lossless_reader_has_seen_them() -> None:
    log = EventLog(most=10_000)
    reader, late = log.read(), log.read()
    for _ in range(300):
        log.append(ToolEnded(call="c", name="n", result="x" * 100), "t")
    assert len(reader.ready()) == 300
    log.append(TextDelta(text="y"), "t")
    assert [event.seq for event in late.ready()] == list(range(1, 302))
    reader.ready()
    log.append(TextDelta(text="z"), "t")
    gap, *kept = log.read().ready()
    assert isinstance(gap, Warned) and gap.code == "gap" and kept[-1].seq == 302
    assert LATEST <= len(kept) < 100
    assert [event.seq for event in reader.ready()] == [302]


@pytest.mark.parametrize(
    "long",
    [
        ToolStarted(call="c", name="edit", args={"edits": [{"old": "x" * 50, "new": "x" * 50}]}),
        TaskChanged(task_id="1", change="tool_start", data={"args": {"edits": [{"old": "x" * 50, "new": "x" * 50}]}}),
        TaskChanged(task_id="1", change="tool_end", data={"result": "x" * 100}),
        TaskChanged(task_id="1", change="text", data={"delta": "x" * 100}),
    ],
    ids=["call", "call of a subagent", "its result", "its words"],
)
async def test_all_long_texts_count_wherever_an_event_has_them(long: Event) -> None:
    log = EventLog(most=10_000)
    for _ in range(300):
        log.append(replace(long), "t")
    gap, *kept = log.read().ready()
    assert isinstance(gap, Warned) and LATEST <= len(kept) <= 101
