"""Messages validated, and the inbox."""

from typing import Any

import pytest

from treadle.coordination.messages import Inbox
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError

ANN, BOB = "haid:ann.box-0001/coder", "haid:bob.box-0002/reviewer"
GOOD = {"type": "question", "from": "coder", "msg_id": "m1", "question": "which port?"}


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
