"""Whatever Claude Code writes is records, events or a protocol error."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from treadle.errors import RemoteProtocolError
from treadle.policy.guess import access_of
from treadle.wire.claude.connection import decode, past, prompt_of, title


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["type", "subtype", "message", "event", "request", "response", "is_error", "x"]), inner
            )
        ),
    )
)
def test_any_json_is_a_record_or_a_protocol_error(value: object) -> None:
    try:
        decode(json.dumps(value).encode())
    except RemoteProtocolError:
        pass


def told(*records: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


FIELDS = some.sampled_from(["uuid", "parentUuid", "type", "message", "isMeta", "logicalParentUuid", "cwd"])


@given(some.lists(some.dictionaries(FIELDS, ANYTHING | some.sampled_from(["user", "assistant", "a", "b"])), max_size=6))
def test_any_lines_give_events_and_no_error(records: list[dict[str, Any]]) -> None:
    data = told(*records)
    past(data, access_of)
    title(data)
    assert all(isinstance(prompt_of(record), str) for record in records)


@given(some.binary(max_size=200))
def test_any_bytes_give_events_and_no_error(data: bytes) -> None:
    assert isinstance(past(data, access_of), list) and len(title(data)) == 2
