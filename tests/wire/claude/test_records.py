"""Reading Claude Code's lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import InvalidJson, RemoteProtocolError, Violation
from treadle.wire.claude.records import ClaudeResult, System, UnknownRecord, User, decode


def test_keys_come_in_any_order() -> None:
    line = b'{"is_error": false, "session_id": "s", "subtype": "success", "result": "x", "type": "result"}'
    assert decode(line) == ClaudeResult(subtype="success", is_error=False, session_id="s", result="x")


def test_a_record_of_a_later_version_is_unknown_and_whole() -> None:
    assert decode(b'{"type":"rate_limit_event","x":1}') == UnknownRecord(record={"type": "rate_limit_event", "x": 1})
    assert decode(b'{"type":"system","subtype":"later","new":[1]}') == System(subtype="later")


@pytest.mark.parametrize("line", [b"{}x", b"[1]", b"7", b'"text"', b"\xff", b"[" * 5000])
def test_what_is_no_object_is_invalid(line: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode(line)


@pytest.mark.parametrize("line", [b'{"type":"result"}', b'{"type":"result","subtype":"success","is_error":"no"}'])
def test_a_known_record_without_its_parts_is_a_violation(line: bytes) -> None:
    with pytest.raises(Violation):
        decode(line)


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


def test_a_prompt_is_no_replay_and_no_one_elses_unless_it_says_so() -> None:
    prompt = User(message={})
    assert not prompt.isReplay and not prompt.isSynthetic and not prompt.client_composed
    with pytest.raises(Violation, match="a result record is not valid"):
        decode(b'{"type":"result"}')
    with pytest.raises(InvalidJson, match="not a JSON object"):
        decode(b"[1]")
    assert decode(b'{"type":7}') == UnknownRecord(record={"type": 7})
