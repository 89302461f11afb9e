"""JSON-RPC 2.0: anything at all gets a well-formed reply or none."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.wire.test_translations import handle
from treadle.errors import InvalidJson, LineTooLong, RemoteProtocolError
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsonrpc import reply
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused, read_line, read_message


def test_a_message_that_was_too_long_is_a_parse_error() -> None:
    text = reply(LineTooLong("a line is longer than 16 bytes"), handle)
    assert text is not None and json.loads(text)["error"]["code"] == -32700


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), x),
    ).map(lambda value: json.dumps(value).encode())
)
def test_anything_at_all_gets_a_well_formed_reply_or_none(data: bytes) -> None:
    text = reply(data, handle)
    if text is not None:
        answers = json.loads(text)
        for answer in answers if isinstance(answers, list) else [answers]:
            assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer) and "id" in answer


def test_deep_nesting_and_bytes_that_are_no_text_are_errors() -> None:
    assert isinstance(read_line(b"[" * 100_000)[0], InvalidJson)
    assert isinstance(read_line(b'{"method":"\xff"}')[0], InvalidJson)


def test_a_line_over_the_cap_stays_the_error_it_was() -> None:
    long = LineSplitter(4).feed(b"123456\n")[0]
    assert isinstance(long, LineTooLong) and read_line(long) == [long]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_gives_a_message_or_an_error(value: Any) -> None:
    assert isinstance(read_message(value), RpcCall | RpcNotice | Returned | RpcRefused | RemoteProtocolError)
