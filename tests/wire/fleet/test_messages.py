"""Subjects give messages their types, also those of the previous release, which carry no format number."""

import re
from typing import get_args

import msgspec
import pytest

from tests.wire.conversations.fleet import SAMPLES
from treadle.errors import RemoteProtocolError
from treadle.fleet.orders import read_answer
from treadle.wire.fleet.connection import SUBJECTS, Connection, kind_of
from treadle.wire.fleet.messages import (
    NodeAnswer,
    PauseRequest,
    RunActivity,
    RunBeatAnswer,
    RunEnded,
    TerminalAnswer,
)


@pytest.mark.parametrize("subject", [each.pattern for each in SUBJECTS])
def test_each_subject_is_found_by_an_example_of_it(subject: str) -> None:
    found = kind_of(re.sub(r"\b[A-Z]+\b(?!\.fleet)", "a-1_b", subject))
    assert found is not None and found.pattern == subject
    assert kind_of(subject + ".a.b.c") is None and kind_of("x" + subject) is None


def test_only_the_scheduler_writes_where_an_order_stands() -> None:
    line = b'{"subject":"$KV.fleet.order.a1","data":{"id":"a1","state":"done","changed":1.0}}\n'
    (refused,) = Connection("scheduler").receive(line)
    assert isinstance(refused, RemoteProtocolError) and "client does not send" in str(refused)


def test_the_samples_contain_every_message_and_a_record_of_each_key() -> None:
    said = {type(message.content) for talk in SAMPLES for _, message in talk}
    for subject in SUBJECTS:
        kinds = {*get_args(subject.type)} or {subject.type}
        assert kinds & said if subject.pattern.startswith("$KV") else kinds <= said, subject.pattern


def test_a_runner_that_has_said_nothing_is_told_from_one_that_works() -> None:
    assert RunActivity() == msgspec.json.decode(b"{}", type=RunActivity) != RunActivity(last_event=1.0)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"decision":"maybe"}', b'{"decision":true}', b'{"by":"ann"}'])
def test_an_answer_that_is_no_permission_is_a_denial(data: bytes) -> None:
    found = read_answer(data, "answer.a.1")
    assert found.decision == "deny" and found.stands


def test_a_flag_that_no_one_set_is_off() -> None:
    assert not RunEnded(order="a", attempt=1).retryable and not PauseRequest(scope="fleet").now
    assert not NodeAnswer(name="n").alive and not RunBeatAnswer(holds=True).paused and not TerminalAnswer().ended
