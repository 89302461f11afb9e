"""Events for a page: long texts are cut and say so, and pieces of a text are shown once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serve.live.followed import write
from tests.serve.test_order_index import event
from tests.wire.test_translations import hold
from treadle.errors import NotFound
from treadle.fleet.engine.bus import Bus
from treadle.serve.api import orders
from treadle.serve.api.orders import CUT, EventPage, Shown, event_page, joined, one_event, unpacked
from treadle.serve.order_index import OrderIndex


def shown(*events: dict[str, Any]) -> list[Shown]:
    return [Shown(seq=1, attempt=1, n=number, event=event) for number, event in enumerate(events, 1)]


def delta(text: str, turn: str = "t", kind: str = "text_delta") -> dict[str, Any]:
    return {"type": kind, "turn": turn, "text": text}


def test_a_long_text_is_cut_wherever_it_is_and_its_length_is_told() -> None:
    long = "x" * (CUT + 1)
    event = {"type": "tool_ended", "text": long, "args": {"a": [long, "short"]}, "raw": {"all": long}, "n": 1}
    (made,) = unpacked(7, 2, {"n": 5, "events": [event]})
    assert (made.seq, made.attempt, made.n) == (7, 2, 5)
    assert made.cut == {"text": CUT + 1, "args.a.0": CUT + 1}
    assert made.event["text"] == made.event["args"]["a"][0] == "x" * CUT and "raw" not in made.event


@given(
    st.lists(
        st.builds(delta, st.text(max_size=3), st.sampled_from("tu"), st.sampled_from(["text_delta", "thinking_delta"]))
    )
)
def test_joining_loses_no_letter_and_leaves_no_neighbours_of_one_kind(events: list[dict[str, Any]]) -> None:
    made = joined(shown(*events))
    assert "".join(each.event["text"] for each in made) == "".join(event["text"] for event in events)
    kinds = [(each.event["type"], each.event["turn"]) for each in made]
    assert all(one != other for one, other in zip(kinds, kinds[1:], strict=False))


async def test_pages_follow_each_other_in_both_directions_and_an_event_is_found_by_its_place(bus: Bus) -> None:
    index = OrderIndex(":memory:", "f")
    for first in (1, 4, 7):
        await write(bus, "o", first, 3)
        await write(bus, "other", first, 1)
    places = {1: 1, 4: 3, 7: 5}
    for first, seq in places.items():
        said = [{"type": "message", "text": str(first + number)} for number in range(3)]
        index.take_events([event("o", seq, *said, first=first)])
    newest = await event_page(bus, index, "o", count=4)
    assert [each.n for each in newest.events] == [4, 5, 6, 7, 8, 9]
    assert (newest.before, newest.after, newest.total) == (3, 5, 9)
    before = await event_page(bus, index, "o", before=newest.before, count=3)
    assert [each.n for each in before.events] == [1, 2, 3] and (before.before, before.after) == (None, 1)
    later = await event_page(bus, index, "o", after=1, count=3)
    assert [each.n for each in later.events] == [4, 5, 6] and (later.before, later.after) == (3, 3)
    end = await event_page(bus, index, "o", after=5)
    assert end == EventPage(events=[], before=None, after=5, total=9)
    assert (await one_event(bus, "o", 3, 5))["text"] == "5"
    for seq, n, said in (
        (3, 7, "no event 7 at 3"),
        (3, 3, "no event 3 at 3"),
        (2, 1, "no event at 2"),
        (99, 1, "at 99"),
    ):
        with pytest.raises(NotFound, match=said):
            await one_event(bus, "o", seq, n)
    index.take_events([event("o", 99, {"type": "message"}, first=10)])
    (gone,) = (await event_page(bus, index, "o", count=1)).events
    assert gone.end == "missing: these events are not kept any more"


def test_pieces_of_a_text_are_joined_or_left_out_as_they_were() -> None:
    hold("serve", {"serve pages": (orders, "")})
