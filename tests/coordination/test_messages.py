"""Messages validated, and the inbox."""

import json
from typing import Any

import pytest

from tests.coordination.conftest import trail
from treadle.coordination.messages import Inbox, validate
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError

ANN, BOB = "haid:ann.box-0001/coder", "haid:bob.box-0002/reviewer"
GOOD = {"type": "question", "from": "coder", "msg_id": "m1", "question": "which port?"}


def test_a_report_is_logged_as_accept_or_reject(planning: Planning) -> None:
    assert validate(planning, json.dumps(GOOD).encode()) == {"valid": True, "errors": []}
    assert validate(planning, b"[]")["valid"] is False
    assert trail(planning) == [
        ["validate", "accept", "m1"],
        ["validate", "reject", '["message must be a JSON object"]'],
    ]


def test_a_message_reaches_a_haid_a_role_or_everybody_but_not_its_sender(planning: Planning) -> None:
    inbox = Inbox(planning)
    for number, to in enumerate([BOB, "reviewer", "*", "somebody-else"]):
        inbox.post(ANN, {**GOOD, "msg_id": f"m{number}"}, to)
    assert [entry["message"]["msg_id"] for entry in inbox.read(BOB)] == ["m0", "m1", "m2"]
    assert inbox.read(ANN) == []
    assert inbox.read(BOB)[0]["by"] == ANN


def test_what_is_acknowledged_is_not_shown_again(planning: Planning) -> None:
    inbox = Inbox(planning)
    inbox.post(ANN, GOOD, "*")
    assert inbox.acknowledge(BOB, ["m1", "m1", "unknown"]) == ["m1"]
    assert inbox.read(BOB) == []
    assert [entry["acknowledged"] for entry in inbox.read(BOB, acknowledged=True)] == [True]
    assert len(inbox.read("haid:carl.box-0003/coder")) == 1  # each for itself


@pytest.mark.parametrize("message", [{}, [], {**GOOD, "type": "gossip"}])
def test_only_valid_messages_are_posted(planning: Planning, message: Any) -> None:
    with pytest.raises(ConfigError):
        Inbox(planning).post(ANN, message)


def test_a_msg_id_is_used_once(planning: Planning) -> None:
    Inbox(planning).post(ANN, GOOD)
    with pytest.raises(ConfigError, match="already"):
        Inbox(planning).post(BOB, GOOD)


def test_a_torn_line_costs_nothing_else(planning: Planning) -> None:
    inbox = Inbox(planning)
    inbox.post(ANN, GOOD)
    with open(inbox.path, "a") as file:
        file.write('{"by":"x","message":{"type"')
    inbox.post(ANN, {**GOOD, "msg_id": "m2"})
    assert [entry["message"]["msg_id"] for entry in inbox.read(BOB)] == ["m1", "m2"]


def test_a_thread_is_everything_that_answers_one_another_and_a_search_finds_words(planning: Planning) -> None:
    inbox = Inbox(planning)
    for name, answers in (("a", ""), ("b", "a"), ("other", ""), ("c", "b"), ("d", "a")):
        more = {"reply_to": answers} if answers else {}
        inbox.post(ANN, {**GOOD, "msg_id": name, "question": f"Say {name.upper()}!", **more})
    for name in "abcd":
        assert [entry["message"]["msg_id"] for entry in inbox.thread(name)] == ["a", "b", "c", "d"]
    assert [entry["message"]["msg_id"] for entry in inbox.thread("other")] == ["other"]
    assert inbox.thread("none") == []
    assert [entry["message"]["msg_id"] for entry in inbox.search("say OTHER")] == ["other"]
    assert len(inbox.search("SAY")) == 5 and inbox.search("nowhere") == []


def test_what_is_posted_refused_read_and_acknowledged_is_in_the_trail(planning: Planning) -> None:
    inbox = Inbox(planning)
    with pytest.raises(ConfigError, match="not a valid message: "):
        inbox.post(ANN, {})
    inbox.post(ANN, GOOD, "reviewer")
    inbox.post(ANN, GOOD, "reviewer", once=True)
    assert inbox.acknowledge(BOB, ["none"]) == []
    assert inbox.acknowledge(BOB, ["m1"]) == ["m1"]
    rows = trail(planning)
    assert [row[1] for row in rows] == ["reject", "post", "read", "read", "ack"]
    assert rows[1] == ["message", "post", f"m1 {ANN}->reviewer"] and rows[4] == ["message", "ack", f"m1 {BOB}"]
    assert rows[2] == ["message", "read", f"{BOB} count=1"]


def test_lines_that_are_no_entries_are_left_out(planning: Planning) -> None:
    inbox = Inbox(planning)
    inbox.post(ANN, GOOD)
    with open(inbox.path, "a") as file:
        for line in (
            "[]",
            '{"message": {}}',
            '{"by": "x", "message": 3}',
            '{"by": "x", "message": {}}',
            '{"ack": "m1"}',
        ):
            file.write(f"{line}\n")
    assert len(inbox.read(BOB)) == 1
