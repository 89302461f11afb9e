"""Subjects give messages their types."""

import re
from typing import get_args

import pytest

from treadle.errors import RemoteProtocolError
from treadle.testing.conversations.fleet import SAMPLES
from treadle.wire.fleet.connection import SUBJECTS, Connection, kind_of, read
from treadle.wire.fleet.messages import NodeBeat
from treadle.wire.fleet.orders import Spec


@pytest.mark.parametrize("subject", [each.pattern for each in SUBJECTS])
def test_each_subject_is_found_by_an_example_of_it(subject: str) -> None:
    found = kind_of(re.sub(r"\b[A-Z]+\b(?!\.fleet)", "a-1_b", subject))
    assert found is not None and found.pattern == subject
    assert kind_of(subject + ".a.b.c") is None and kind_of("x" + subject) is None


def test_the_subject_decides_what_is_read() -> None:
    assert isinstance(read("$KV.fleet.spec.a1", b'{"id":"a1","task":"t","added_later":1}'), Spec)
    for subject, data in (("$KV.fleet.spec.a1", b'{"id":1}'), ("$KV.fleet.spec.a1", b"{"), ("fleet.what.ever", b"{}")):
        with pytest.raises(RemoteProtocolError):
            read(subject, data)


def test_only_the_scheduler_writes_where_an_order_stands() -> None:
    line = b'{"subject":"$KV.fleet.order.a1","data":{"id":"a1","state":"done","changed":1.0}}\n'
    (refused,) = Connection("scheduler").receive(line)
    assert isinstance(refused, RemoteProtocolError) and "client does not send" in str(refused)


def test_the_samples_contain_every_message_and_record() -> None:
    said = {type(message.content) for talk in SAMPLES for _, message in talk}
    kinds = {each for kind in SUBJECTS for each in (get_args(kind.type) or (kind.type,))}
    assert kinds - said == set()


def test_what_a_later_version_adds_is_skipped_also_inside() -> None:
    beat = read("fleet.beat.n1.node", b'{"format":1,"slots":2,"gpus":["a"]}')
    assert beat == NodeBeat(format=1, slots=2)
    spec = read("$KV.fleet.spec.a1", b'{"id":"a1","task":"t","limits":{"usd":1.0,"joules":3}}')
    assert spec.limits.usd == 1.0


def test_true_is_not_an_integer_and_a_number_is_not_a_name() -> None:
    for data in (b'{"order":"a","attempt":true}', b'{"order":1,"attempt":1}', b'{"order":"a"}', b"[]", b"null", b""):
        with pytest.raises(RemoteProtocolError):
            read("fleet.in.node.n1.started", data)
    with pytest.raises(RemoteProtocolError):
        read("fleet.in.wish.cancel", b'{"do":"explode","order":"a"}')


def test_each_subject_is_a_name_of_the_fleet_that_one_of_the_two_roles_publishes_on() -> None:
    for pattern, by, kind in SUBJECTS:
        assert pattern.startswith(("fleet.", "$KV.fleet.")) and by in ("client", "scheduler") and kind is not None
    roles = {each.pattern: each.by for each in SUBJECTS}
    assert (
        roles["fleet.tell.NODE.ORDER"] == roles["$KV.fleet.work.NODE.ID"] == roles["fleet.ended.ORDER"] == "scheduler"
    )
    assert roles["fleet.beat.NODE.node"] == roles["fleet.in.wish.DO"] == roles["$KV.fleet.answer.ID.NUMBER"] == "client"
    with pytest.raises(RemoteProtocolError, match="nothing is published on 'fleet.what.ever'"):
        read("fleet.what.ever", b"{}")
    with pytest.raises(RemoteProtocolError, match=r"^.KV.fleet.spec.a1 cannot be read"):
        read("$KV.fleet.spec.a1", b"{")
    (refused,) = Connection("client").receive(b'{"subject":"fleet.nowhere","data":{}}\n')
    assert isinstance(refused, RemoteProtocolError)
