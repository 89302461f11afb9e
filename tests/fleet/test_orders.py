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
    is_id,
    new_id,
    read_answer,
    read_order,
    read_spec,
)
from treadle.fleet.orders import submitted as read_exactly
from treadle.wire.fleet.orders import OrderLimits
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
        ({"agent": PERSON, "after": ("a",)}, "asked at once"),
        ({"retry_on": ("stall",), "on_stall": "interrupt"}, "cannot both interrupt and retry"),
        ({"retry_on": ("verify",)}, "has no `verify`"),
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
    ("wrong", "says", "hint"),
    [
        ({"id": ""}, "not a valid id", "use small letters, digits and -, at most 64"),
        ({"agent": PERSON, "cron": "0 6 * * *"}, "asked at once", ""),
        ({"agent": PERSON, "every": 5.0}, "asked at once", ""),
        ({"agent": PERSON, "not_before": 5.0}, "asked at once", ""),
        ({"agent": PERSON, "terminal": True}, "asked at once", ""),
        ({"retry_on": ("stall",), "on_stall": "cancel"}, "cannot both cancel and retry", "leave out one of the two"),
        ({"retry_on": ("verify",)}, "has no `verify`", "give it --verify CMD"),
        ({"format": 0}, "the order has format 0, and this program knows 1", ""),
    ],
)
def test_what_is_refused_says_what_to_do(wrong: dict[str, object], says: str, hint: str) -> None:
    with pytest.raises(TreadleError, match=says) as refused:
        checked(msgspec.structs.replace(spec(), **wrong))
    assert hint in (refused.value.hint or "")


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


def test_an_order_begins_with_what_its_submitter_gave() -> None:
    fields = {"title": "T", "project": "p", "priority": 7, "not_before": 9.0, "after": ("x",), "root": "/r"}
    given = spec("codex", limits=OrderLimits(tokens=5), created=3.0, **fields)
    made = begun(given, 5.0)
    assert (made.title, made.project, made.priority, made.not_before, made.after) == ("T", "p", 7, 9.0, ("x",))
    assert (made.agent, made.place, made.limits, made.created) == ("codex", "/r", OrderLimits(tokens=5), 3.0)
    assert begun(msgspec.structs.replace(given, title="", task="x" * 150), 5.0).title == "x" * 100


def test_what_is_stored_is_read_by_later_versions_and_what_is_damaged_is_named() -> None:
    order = begun(spec(id="a"), 1.0)
    newer = encode({**msgspec.to_builtins(order), "of_a_later_version": 1})
    assert read_order(Entry("order.a", newer, 1)) == order == read_order(Entry("order.a", encode(order), 1))
    given = spec(id="a")
    assert read_exactly(encode(given)) == given
    with pytest.raises(StorageError, match="an order as it was given is damaged"):
        read_spec(b'{"id": 3}')
    assert [is_id(name) for name in ("a-b_9", "", "A", "a" * 64, "a" * 65, "ä")] == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    assert new_id("x") != new_id("y")


def test_a_question_has_the_words_of_its_agent_and_an_answer_is_read_as_given() -> None:
    given, order = spec("codex", id="a"), begun(spec(id="a", title="T"), 1.0)
    stored = ask_record(given, order, AgentQuestion(command="make", options=["x"], why="w"), 1, 2.0)
    assert (stored.command, stored.options, stored.why, stored.title, stored.agent) == (
        "make",
        ["x"],
        "w",
        "T",
        "codex",
    )
    found = read_answer(b'{"decision": "allow", "by": "ana", "text": "go"}', "answer.a.1")
    assert (found.decision, found.by, found.text) == ("allow", "ana", "go")
    assert read_answer(b"{", "answer.a.1").by == "the runner"
