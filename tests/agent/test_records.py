"""The lines of a session's history, and what the list of sessions tells of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.messages import UserMessage
from treadle.agent.transcript import (
    LISTED,
    Cleared,
    Compacted,
    Header,
    MessageRecord,
    Named,
    Record,
    Rewound,
    Switched,
    TurnBegan,
    TurnOver,
    decode,
    effective,
    listed,
    listing_of,
)

HEADER = Header(format=1, id="s", cwd="/", model="m", created=0.0, version="1")


def begin(turn: str, prompt: str = "p") -> TurnBegan:
    return TurnBegan(turn=turn, prompt=prompt)


def test_a_line_that_is_no_record_is_left_out_and_costs_no_other() -> None:
    records: list[Record] = [MessageRecord(message=UserMessage(text="hi")), Cleared()]
    lines = [msgspec.json.encode(record) for record in records]
    assert decode([lines[0], b"", b"{", b'{"type":"later"}', b"[" * 100_000, b"\xff", lines[1]]) == records


def test_a_summary_is_stored_under_the_names_that_older_versions_read() -> None:
    line = msgspec.json.encode(Compacted(summary="in short", retained=2))
    assert msgspec.json.decode(line) == {"type": "compacted", "summary": "in short", "kept": 2}
    assert decode([line]) == [Compacted(summary="in short", retained=2)]


def test_what_was_rewound_is_gone_with_all_that_followed() -> None:
    first, second, third = begin("t1"), begin("t2"), begin("t3")
    assert effective([first, second, Rewound(turn="t2"), third]) == [first, third]
    assert effective([first, Rewound(turn="none"), second]) == [first, second]
    assert effective([first, Rewound(turn="t1"), Rewound(turn="t1")]) == []


def test_the_list_tells_the_first_prompt_that_still_counts() -> None:
    told = listing_of(HEADER, [begin("t1", "x" * 2 * LISTED), Named(name="n"), Switched(model="other"), begin("t2")])
    assert (told.prompt, told.turns, told.name, told.model) == ("x" * LISTED, 2, "n", "other")
    assert listing_of(HEADER, [begin("t1", "a"), Rewound(turn="t1"), begin("t2", "b")]).prompt == "b"


def test_a_record_that_ends_something_carries_what_the_list_tells() -> None:
    told = listing_of(HEADER, [begin("t1", "a")])
    assert listed(listing_of(HEADER, []), TurnOver(turn="t1", outcome="completed", listing=told)) == told
    assert listed(told, TurnOver(turn="t1", outcome="completed")) == told


records = st.lists(
    st.builds(begin, st.sampled_from(["t1", "t2"]), st.text(max_size=3))
    | st.builds(Named, name=st.text(max_size=3))
    | st.builds(Switched, model=st.text(max_size=3))
    | st.just(Cleared())
)


@pytest.mark.slow
@given(records)
def test_record_by_record_the_list_comes_to_the_same(found: list[Record]) -> None:
    told = listing_of(HEADER, [])
    for record in found:
        told = listed(told, record)
    assert told == listing_of(HEADER, found)


@given(records)
def test_a_history_is_read_as_it_was_written(found: list[Record]) -> None:
    assert decode(map(msgspec.json.encode, found)) == found
