"""Subjects give messages their types, also those of the previous release, which carry no format number."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from treadle.errors import RemoteProtocolError
from treadle.fleet.engine.bus import Entry
from treadle.fleet.orders import read_answer, read_order, read_spec
from treadle.testing.conversations.fleet import SAMPLES
from treadle.wire.fleet.connection import SUBJECTS, Connection, kind_of, read
from treadle.wire.fleet.messages import (
    BudgetRequest,
    KeepRequest,
    NodeAnswer,
    NodeBeat,
    PauseRequest,
    RunActivity,
    RunBeatAnswer,
    RunEnded,
    SetRequest,
    TerminalAnswer,
)
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AskRecord, NodeRecord, SayRecord


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


def test_the_samples_contain_every_message_and_a_record_of_each_key() -> None:
    said = {type(message.content) for talk in SAMPLES for _, message in talk}
    for subject in SUBJECTS:
        kinds = {*get_args(subject.type)} or {subject.type}
        assert kinds & said if subject.pattern.startswith("$KV") else kinds <= said, subject.pattern


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


DEFAULTS = {"format": 1, "agent": "native"}


"""What a struct may leave out because it is the default."""

LINES = (Path(__file__).parent / "format0.jsonl").read_text().splitlines()


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.loads(line)["subject"])
def test_everything_that_the_previous_release_wrote_is_read(line: str) -> None:
    """And nothing in it is lost: what is written again has every field with the same value."""
    recorded = json.loads(line)
    found = read(recorded["subject"], json.dumps(recorded["data"]).encode())
    assert lost(recorded["data"], json.loads(msgspec.json.encode(found))) == []


def lost(before: Any, after: Any) -> list[Any]:
    """What was written once and is not written again; empty values may be left out."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [] if before == after else [before]
    full = {name: value for name, value in before.items() if value not in (None, "", [], {}, 0, False)}
    return [each for name, value in full.items() for each in lost(value, after.get(name, DEFAULTS.get(name)))]


def test_a_beat_of_the_previous_release_is_format_0() -> None:
    beats = [json.loads(line) for line in LINES if '"fleet.beat.n1.node"' in line]
    (beat,) = [read(each["subject"], json.dumps(each["data"]).encode()) for each in beats]
    assert isinstance(beat, NodeBeat) and beat.format == 0 and beat.slots == 4


def test_orders_of_the_previous_release_are_read_by_those_who_read_orders() -> None:
    stored = {json.loads(line)["subject"]: json.dumps(json.loads(line)["data"]).encode() for line in LINES}
    spec = read_spec(stored["$KV.fleet.spec.old1"])
    assert spec.policy.deny_write == ("secrets/**",) and spec.limits.usd == 1.5
    order = read_order(Entry("order.old1", stored["$KV.fleet.order.old1"], 7))
    assert order.state == "asking" and order.attempts[0].number == 1
    ask = read("$KV.fleet.ask.old1.1", stored["$KV.fleet.ask.old1.1"])
    assert isinstance(ask, AskRecord) and ask.words == "make test"
    assert isinstance(read("$KV.fleet.node.n1", stored["$KV.fleet.node.n1"]), NodeRecord)
    assert isinstance(read("$KV.fleet.say.old1.1", stored["$KV.fleet.say.old1.1"]), SayRecord)


def test_absent_and_null_differ_where_null_removes_a_limit() -> None:
    assert b"usd" not in msgspec.json.encode(BudgetRequest(scope="fleet"))
    assert b'"usd":null' in msgspec.json.encode(BudgetRequest(scope="fleet", usd=None))
    assert msgspec.json.decode(b'{"do":"keep"}', type=KeepRequest) == KeepRequest()
    assert read("fleet.in.wish.set", b'{"do":"set","order":"a","limits":{"usd":null}}') == SetRequest(
        order="a", limits={"usd": None}
    )
    with pytest.raises(RemoteProtocolError, match="limits"):
        read("fleet.in.wish.set", b'{"do":"set","order":"a","limits":{"joules":3}}')


def test_a_runner_that_has_said_nothing_is_told_from_one_that_works() -> None:
    assert RunActivity() == msgspec.json.decode(b"{}", type=RunActivity) != RunActivity(last_event=1.0)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"decision":"maybe"}', b'{"decision":true}', b'{"by":"ann"}'])
def test_an_answer_that_is_no_permission_is_a_denial(data: bytes) -> None:
    found = read_answer(data, "answer.a.1")
    assert found.decision == "deny" and found.stands


def test_a_flag_that_no_one_set_is_off() -> None:
    assert not RunEnded(order="a", attempt=1).retryable and not PauseRequest(scope="fleet").now
    assert not NodeAnswer(name="n").alive and not RunBeatAnswer(holds=True).paused and not TerminalAnswer().ended
