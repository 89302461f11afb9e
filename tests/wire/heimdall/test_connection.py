"""Validate on receipt: malformed, one retry, escalate."""

import json

import pytest

from treadle.errors import RemoteProtocolError
from treadle.testing.conversations.heimdall import MESSAGES
from treadle.wire.heimdall.connection import Connection, Invalid

GOOD = json.dumps(MESSAGES[0]).encode() + b"\n"


def states(*lines: bytes) -> list[object]:
    receiver, found = Connection("receiver"), []
    for line in lines:
        receiver.receive(line)
        found.append(receiver.state)
    return found


def test_a_receiver_grants_exactly_one_retry() -> None:
    assert states(GOOD) == ["accepted"]
    assert states(b"nonsense\n", GOOD) == ["retrying", "accepted"]
    assert states(b"1\n", b"2\n") == ["retrying", "escalated"]
    assert states(b"\n", b"  \n", b"1\n", b"\n", GOOD) == ["waiting", "waiting", "retrying", "retrying", "accepted"]


def test_an_invalid_line_says_everything_that_is_wrong_with_it() -> None:
    [error] = Connection("receiver").receive(b'{"type":"question","msg_id":"m"}\n')
    assert isinstance(error, Invalid)
    assert error.faults == ["missing required field: from", "question: missing required field: question"]


def test_nothing_is_taken_after_a_message_was_accepted_or_escalated() -> None:
    for first in (GOOD, b"1\n2\n"):
        receiver = Connection("receiver")
        receiver.receive(first)
        state = receiver.state
        [late] = receiver.receive(GOOD)
        assert isinstance(late, RemoteProtocolError) and receiver.state == state


def test_a_line_over_the_cap_is_an_attempt_like_any_other() -> None:
    receiver = Connection("receiver", cap=20)
    [error] = receiver.receive(GOOD)
    assert isinstance(error, Invalid) and receiver.state == "retrying"
    assert error.faults[0].startswith("a line is longer than 20 bytes")


def test_a_last_line_without_its_newline_counts() -> None:
    receiver = Connection("receiver")
    receiver.receive(GOOD.rstrip())
    assert receiver.end() == [MESSAGES[0]] and receiver.state == "accepted"
    receiver = Connection("receiver")
    receiver.receive(b"{")
    with pytest.raises(Invalid, match="unparseable JSON"):
        receiver.end()
    assert receiver.state == "retrying"
