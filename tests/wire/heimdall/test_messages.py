"""The typed messages, and how a receiver validates them: malformed, one retry, escalate."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.conversations.heimdall import MESSAGES
from treadle.errors import RemoteProtocolError
from treadle.wire.heimdall import messages
from treadle.wire.heimdall.connection import Connection, Invalid

GOOD: list[dict[str, Any]] = [
    {"type": "task_claim", "from": "a", "msg_id": "m", "task": "3.2", "symbols": ["F12"], "capsules": []},
    {"type": "task_result", "from": "a", "msg_id": "m", "task": "3.2", "status": "pass", "criteria": [1, 2, 4]},
    {"type": "gate_report", "from": "a", "msg_id": "m", "gate_id": "g", "status": "fail", "wave": None},
    {"type": "escalation", "from": "a", "msg_id": "m", "reason": "r", "severity": "info", "refs": ["x"]},
    {"type": "question", "from": "a", "msg_id": "m", "question": "why?", "reply_to": "m0", "own": {"field": 1}},
    {"type": "checkpoint", "from": "a", "msg_id": "m", "wave": "1", "state": "blocked", "ts": "now"},
]

JUDGE = jsonschema.Draft7Validator(messages.schema())


def test_the_published_schema_is_a_legal_draft_07_schema_with_its_id() -> None:
    jsonschema.Draft7Validator.check_schema(messages.schema())
    assert messages.schema()["$id"] == "https://heimdall/protocol/message-schema-2.0.0.json"


VALUES = st.sampled_from([None, True, 0, 1, 1.5, "", "x", "pass", "info", "complete", [], ["a"], [1], {}])


@given(
    st.sampled_from(GOOD),
    st.dictionaries(st.sampled_from(sorted({name for good in GOOD for name in good})), VALUES, max_size=3),
    st.sets(st.sampled_from(sorted({name for good in GOOD for name in good})), max_size=2),
)
def test_the_validator_and_the_schema_never_disagree(
    good: dict[str, Any], changed: dict[str, Any], removed: set[str]
) -> None:
    message = {name: value for name, value in {**good, **changed}.items() if name not in removed}
    assert (messages.faults(message) == []) == JUDGE.is_valid(message)


@given(st.binary() | st.text().map(str.encode) | VALUES.map(json.dumps).map(str.encode))
def test_any_input_at_all_gives_a_list_of_texts(data: bytes) -> None:
    _, faults = messages.read(data)
    assert all(isinstance(fault, str) for fault in faults)


@pytest.mark.parametrize("data", [b"", b'{"type":', b"\xff", b"{} {}", b"[" * 100_000, b"NaN"])
def test_what_is_not_one_json_value_is_unparseable(data: bytes) -> None:
    assert messages.read(data) == (None, ["unparseable JSON"])


GOOD_LINE = json.dumps(MESSAGES[0]).encode() + b"\n"


def states(*lines: bytes) -> list[object]:
    receiver, found = Connection("receiver"), []
    for line in lines:
        receiver.receive(line)
        found.append(receiver.state)
    return found


def test_a_receiver_grants_exactly_one_retry() -> None:
    assert states(GOOD_LINE) == ["accepted"]
    assert states(b"nonsense\n", GOOD_LINE) == ["retrying", "accepted"]
    assert states(b"1\n", b"2\n") == ["retrying", "escalated"]
    assert states(b"\n", b"  \n", b"1\n", b"\n", GOOD_LINE) == [
        "waiting",
        "waiting",
        "retrying",
        "retrying",
        "accepted",
    ]


def test_an_invalid_line_says_everything_that_is_wrong_with_it() -> None:
    [error] = Connection("receiver").receive(b'{"type":"question","msg_id":"m"}\n')
    assert isinstance(error, Invalid)
    assert error.faults == ["missing required field: from", "question: missing required field: question"]


def test_nothing_is_taken_after_a_message_was_accepted_or_escalated() -> None:
    for first in (GOOD_LINE, b"1\n2\n"):
        receiver = Connection("receiver")
        receiver.receive(first)
        state = receiver.state
        [late] = receiver.receive(GOOD_LINE)
        assert isinstance(late, RemoteProtocolError) and receiver.state == state


def test_a_line_over_the_cap_is_an_attempt_like_any_other() -> None:
    receiver = Connection("receiver", cap=20)
    [error] = receiver.receive(GOOD_LINE)
    assert isinstance(error, Invalid) and receiver.state == "retrying"
    assert error.faults[0].startswith("a line is longer than 20 bytes")
