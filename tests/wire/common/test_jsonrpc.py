"""JSON-RPC 2.0 as its specification says, and a well-formed reply to anything at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import LineTooLong
from treadle.wire.common.jsonrpc import Fault, reply


def handle(method: str, params: dict[str, Any]) -> Any:
    if method == "echo":
        return params
    if method == "fault":
        raise Fault(-32000, "no", {"why": "because"})
    if method == "crash":
        raise RuntimeError("oh")
    if method == "unwritable":
        return {"a": object()}
    raise Fault(-32601, f"unknown method: {method}")


def said(message: Any) -> Any:
    text = reply(message if isinstance(message, bytes) else json.dumps(message).encode(), handle)
    return None if text is None else json.loads(text)


def error(message: Any) -> tuple[Any, int]:
    answer = said(message)
    assert set(answer) == {"jsonrpc", "id", "error"} and answer["jsonrpc"] == "2.0"
    return answer["id"], answer["error"]["code"]


def call(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **fields}


@pytest.mark.parametrize("name", [1, 0, -3, 1.5, "a", "", None])
def test_a_call_is_answered_with_its_id(name: Any) -> None:
    assert said(call(id=name, method="echo", params={"a": [1]})) == call(id=name, result={"a": [1]})


def test_params_may_be_left_out_or_null() -> None:
    assert said(call(id=1, method="echo"))["result"] == {}
    assert said(call(id=1, method="echo", params=None))["result"] == {}


@pytest.mark.parametrize("method", ["echo", "fault", "crash", "nothing"])
def test_a_notification_is_never_answered(method: str) -> None:
    assert said(call(method=method)) is None


def test_an_answer_to_nothing_is_ignored() -> None:
    assert said(call(id=1, result={})) is None
    assert said(call(id=1, error={"code": 1, "message": ""})) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"{", (None, -32700)),
        (b"\xff", (None, -32700)),
        (b"[1", (None, -32700)),
        ([], (None, -32600)),
        (1, (None, -32600)),
        ("text", (None, -32600)),
        ({"id": 1, "method": "echo"}, (None, -32600)),
        ({"jsonrpc": "1.0", "id": 1, "method": "echo"}, (None, -32600)),
        (call(id=[1], method="echo"), (None, -32600)),
        (call(id=True, method="echo"), (None, -32600)),
        (call(id=7), (7, -32600)),
        (call(id=7, method=3), (7, -32600)),
        (call(id=7, method="echo", params=[1]), (7, -32602)),
        (call(id=7, method="nothing"), (7, -32601)),
        (call(id=7, method="crash"), (7, -32603)),
        (call(id=7, method="unwritable"), (7, -32603)),
        (call(id=7, method="fault"), (7, -32000)),
    ],
)
def test_what_is_wrong_has_the_code_of_the_specification(message: Any, expected: tuple[Any, int]) -> None:
    assert error(message) == expected


def test_a_fault_carries_its_data() -> None:
    assert said(call(id=1, method="fault"))["error"] == {"code": -32000, "message": "no", "data": {"why": "because"}}


def test_a_batch_is_answered_as_a_batch_without_its_notifications() -> None:
    batch = [call(id=1, method="echo"), call(method="echo"), 1, call(id="b", method="nothing")]
    answers = said(batch)
    assert [answer["id"] for answer in answers] == [1, None, "b"]
    assert said([call(method="echo"), call(method="echo")]) is None


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
