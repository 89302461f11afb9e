"""The lines of a session's history, and what the list of sessions tells of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.messages import UserMessage
from treadle.agent.transcript import (
    Cleared,
    Header,
    MessageRecord,
    Named,
    Record,
    Switched,
    TurnBegan,
    decode,
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
