"""Subjects give messages their types."""

import pytest

from treadle.errors import RemoteProtocolError
from treadle.wire.fleet.connection import SUBJECTS, Connection, kind_of, read
from treadle.wire.fleet.orders import Spec


@pytest.mark.parametrize("subject", [each.pattern for each in SUBJECTS])
def test_each_subject_is_found_by_an_example_of_it(subject: str) -> None:
    found = kind_of(subject.replace("ID", "a-1_b"))
    assert found is not None and found.pattern == subject
    assert kind_of(subject + ".more") is None and kind_of("x" + subject) is None


def test_the_subject_decides_what_is_read() -> None:
    assert isinstance(read("$KV.fleet.spec.a1", b'{"id":"a1","task":"t","added_later":1}'), Spec)
    for subject, data in (("$KV.fleet.spec.a1", b'{"id":1}'), ("$KV.fleet.spec.a1", b"{"), ("fleet.what.ever", b"{}")):
        with pytest.raises(RemoteProtocolError):
            read(subject, data)


def test_only_the_scheduler_writes_where_an_order_stands() -> None:
    line = b'{"subject":"$KV.fleet.order.a1","data":{"id":"a1","state":"done","changed":1.0}}\n'
    (refused,) = Connection("scheduler").receive(line)
    assert isinstance(refused, RemoteProtocolError) and "client does not send" in str(refused)
