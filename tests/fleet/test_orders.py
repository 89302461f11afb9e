"""Orders as they are made, checked and read: what is impossible is refused, and what another version wrote is read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.conftest import spec
from treadle.errors import ConfigError, StorageError, TreadleError
from treadle.fleet.engine.bus import Entry
from treadle.fleet.orders import (
    PERSON,
    ask_record,
    begun,
    checked,
    encode,
    new_id,
    read_answer,
    read_order,
    read_spec,
)
from treadle.fleet.orders import submitted as read_exactly
from treadle.wire.fleet.records import AgentQuestion, Attempt


@given(st.text(min_size=1))
def test_the_same_key_always_gives_the_same_id(key: str) -> None:
    assert new_id(key) == new_id(key) and len(new_id(key)) == 12 and checked(spec(id=new_id(key)))


def test_without_a_key_each_id_is_new() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"format": 99}, "format 99"),
        ({"id": "Big"}, "not a valid id"),
        ({"id": "a/b"}, "not a valid id"),
        ({"id": "a" * 65}, "not a valid id"),
        ({"priority": True}, "not an order"),
        ({"claims": ("a\nb",)}, "is not a surface"),
        ({"format": 0}, "format 0"),
        ({"agent": PERSON, "after": ("a",)}, "asked at once"),
        ({"agent": PERSON, "cron": "0 6 * * *"}, "asked at once"),
        ({"agent": PERSON, "every": 5.0}, "asked at once"),
        ({"agent": PERSON, "not_before": 5.0}, "asked at once"),
        ({"agent": PERSON, "terminal": True}, "asked at once"),
        ({"retry_on": ("stall",), "on_stall": "interrupt"}, "cannot both interrupt and retry"),
        ({"retry_on": ("verify",)}, "no `verify` is set"),
        ({"every": 60.0, "cron": "0 6 * * *"}, "not by both"),
        ({"cron": "0 25 * * *"}, "not a cron expression"),
    ],
)
def test_what_is_impossible_is_refused_before_it_is_stored(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(TreadleError, match=says):
        checked(msgspec.structs.replace(spec(), **wrong))


def test_an_empty_task_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"at `\$\.task`"):
        checked(msgspec.structs.replace(spec(), task=" \n"))


def test_an_order_without_a_title_is_called_by_the_first_line_of_its_task() -> None:
    made = begun(msgspec.structs.replace(spec(), task="\n  weave a cloth\nand more" + "x" * 200, labels=("gpu",)), 5.0)
    assert (made.title, made.state, made.changed, made.labels) == ("weave a cloth", "queued", 5.0, ("gpu",))


def test_what_a_program_asks_for_and_we_do_not_know_is_refused_and_what_was_accepted_once_is_read() -> None:
    newer = encode({**msgspec.to_builtins(spec(id="a")), "of_a_later_version": 1})
    with pytest.raises(StorageError, match="of_a_later_version"):
        read_exactly(newer)
    assert read_spec(newer).id == "a"
    with pytest.raises(StorageError, match=r"order\.a is damaged"):
        read_order(Entry("order.a", b"{", 1))


def test_a_question_is_stored_with_who_asks_and_until_when() -> None:
    given = spec(id="a", answer_seconds=30.0, answer_default="allow")
    order = msgspec.structs.replace(
        begun(given, 1.0), node="n1", attempts=(Attempt(number=1, node="n1", placed=1.0),), attempt=1
    )
    stored = ask_record(given, order, AgentQuestion(kind="permission", text="May it?"), 3, 100.0)
    assert (stored.order, stored.number, stored.attempt, stored.node) == ("a", 3, 1, "n1")
    assert (stored.asked_at, stored.deadline, stored.default) == (100.0, 130.0, "allow")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"decision": "yes"}', b'{"decision": true}', b"\xff"])
def test_an_answer_that_cannot_be_read_is_no_permission(data: bytes) -> None:
    found = read_answer(data, "answer.a.1")
    assert found.decision == "deny" and "the answer was refused" in found.text


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a" * 64},
        {"agent": PERSON},
        {"retry_on": ("stall",), "on_stall": "notify"},
        {"retry_on": ("stall",), "on_stall": "retry"},
        {"retry_on": ("verify",), "verify": "make"},
        {"cron": "0 6 * * *", "zone": "Europe/Berlin"},
        {"every": 5.0, "not_before": 5.0, "after": ("a",), "terminal": True},
        {"on_stall": "cancel"},
        {"claims": ("src/**", "a.py")},
    ],
)
def test_what_is_possible_is_taken(fields: dict[str, object]) -> None:
    given = msgspec.structs.replace(spec(), **fields)
    assert checked(given) is given
