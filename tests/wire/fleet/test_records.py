"""What is stored of orders and trains, and the tables of their states."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pytest

from treadle.wire.fleet import train
from treadle.wire.fleet.records import (
    AgentQuestion,
    AnswerRecord,
    Attempt,
    Note,
    Order,
    OrderReceipt,
    TakenRecord,
    WorkRecord,
)
from treadle.wire.fleet.states import (
    AT_WORK,
    ATTEMPT,
    ENDED,
    ORDER,
    QUESTION,
    Happening,
    IllegalMove,
    Outcome,
    State,
    moved,
)


def test_who_turned_an_order_down_and_whether_it_is_parked_or_over_is_seen_in_its_attempts() -> None:
    outcomes = ("lost", "handed_back", "parked", "not_here", "failed", "")
    attempts = tuple(Attempt(number=n, node=f"n{n}", placed=0.0, outcome=o, why=o) for n, o in enumerate(outcomes))
    order = Order(id="a", state="asking", changed=0.0, attempts=attempts)
    assert order.turned_down == {"n3": "not_here"} and order.parked and not order.ended
    assert not Order(id="a", state="asking", changed=0.0, node="n").parked
    again = (*attempts, Attempt(number=6, node="n3", placed=0.0, agent="other"))
    assert Order(id="a", state="queued", changed=0.0, agent="one", attempts=again).turned_down == {}, "it may be back"
    assert Order(id="a", state="skipped", changed=0.0).ended


def test_a_seal_covers_everything_but_itself() -> None:
    sealed = OrderReceipt(order="a", outcome="done", ended=1.0).sealed()
    assert sealed.sealed() == sealed and len(sealed.sha256) == 64
    assert OrderReceipt(order="a", outcome="failed", ended=1.0).sealed().sha256 != sealed.sha256


def test_an_attempt_is_placed_then_started_and_then_what_it_ended_as() -> None:
    placed = Attempt(number=1, node="n", placed=1.0)
    assert placed.state == "placed" and msgspec.structs.replace(placed, started=2.0).state == "started"
    assert msgspec.structs.replace(placed, started=2.0, outcome="lost").state == "lost"
    assert not Order(id="a", state="running", changed=0.0).parked


def test_the_words_of_a_question_are_its_command_else_its_headline_else_its_text() -> None:
    asked = AgentQuestion(text="May I?", headline="write a.txt", command="make")
    assert asked.words == "make" and msgspec.structs.replace(asked, command=None).words == "write a.txt"
    assert AgentQuestion(text="May I?").words == "May I?"


def test_an_answer_stands_until_it_is_withdrawn() -> None:
    answer = AnswerRecord(decision="allow")
    assert answer.stands and answer.state == "answered"
    withdrawn = AnswerRecord(decision="allow", withdrawn=1.0)
    assert not withdrawn.stands and withdrawn.state == "open"
    assert not TakenRecord().withdrawn and not WorkRecord(order="a", attempt=1).commands


TABLES: dict[str, tuple[Mapping[tuple[Any, Any], Any], str]] = {
    "order": (ORDER, "queued"),
    "attempt": (ATTEMPT, "placed"),
    "question": (QUESTION, "open"),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_from_the_first(name: str) -> None:
    table, first = TABLES[name]
    reached = {first}
    while more := {after for (state, _), after in table.items() if state in reached} - reached:
        reached |= more
    assert reached == {state for state, _ in table} | set(table.values())


def test_an_order_has_eight_states_and_an_end_has_no_way_out() -> None:
    assert {state for state, _ in ORDER} | set(ORDER.values()) == set(get_args(State))
    assert not [key for key in ORDER if key[0] in ENDED] and {*ENDED, *AT_WORK, "queued"} == set(get_args(State))
    for state in ENDED:
        for happening in get_args(Happening):
            with pytest.raises(IllegalMove):
                moved(ORDER, state, happening)


def test_nothing_is_done_that_was_not_placed_and_only_what_waits_is_skipped() -> None:
    assert ("queued", "done") not in ORDER and ("queued", "start") not in ORDER
    assert [state for state, happening in ORDER if happening == "skipped"] == ["queued"]
    assert {state for state, happening in ORDER if happening == "give_back"} == set(AT_WORK)


def test_an_attempt_ends_once() -> None:
    for outcome in get_args(Outcome):
        ended = Attempt(number=1, node="n", placed=1.0, started=2.0, outcome=outcome)
        assert ended.state == outcome and not [key for key in ATTEMPT if key[0] == outcome]
    assert Attempt(number=1, node="n", placed=1.0).state == "placed"
    assert Attempt(number=1, node="n", placed=1.0, started=2.0).state == "started"


def test_an_answer_counts_once() -> None:
    """A second answer, and taking back what the runner has taken, are not in the table."""
    given = AnswerRecord(decision="allow", by="ann")
    assert given.state == "answered" and AnswerRecord(withdrawn=1.0).state == "open"
    for state, happening in (("answered", "answer"), ("taken", "answer"), ("taken", "withdraw"), ("open", "take")):
        with pytest.raises(IllegalMove):
            moved(QUESTION, state, happening)  # type: ignore[misc]


FULL = train.TrainRecord(
    repository="/r/.git",
    branch="main",
    verify="make test",
    policy="serial",
    checks_on="nodes",
    queue=(train.QueuedChange(order="a", commit="c1", alone="must", tried=("its author tried",)),),
    row=(train.Car(orders=("b",), on="c0", commit="c2", tree="t", verdict="green"),),
    apart=(train.Car(orders=("c",), on="c0", commit="c3", tree="t", reds=1, apart=True),),
    landing=train.LandingIntent(old="c0", new="c2", tree="t", orders=("b",)),
    paused=Note(at=1.0, by="ana", what="lunch"),
    back=(train.ReturnedChange(order="d", first="d", commit="c4", kind="conflict", why="a.txt", at=1.0),),
    left_out=(train.LeftOut(order="e", kind="red", why="its check failed", at=1.0),),
)


@pytest.mark.parametrize(
    "stored",
    [
        FULL,
        train.Boarding(order="a", root="/r", branch="main"),
        train.TrainRequest(by="ana", pause="lunch"),
        train.LandedRecord(order="a", train="t", branch="main", commit="c", tree="t", seq=1, at=1.0, by="b"),
    ],
    ids=lambda stored: type(stored).__name__,
)
def test_what_is_stored_is_read_as_it_was_written_with_its_format(stored: msgspec.Struct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(stored), type=type(stored)) == stored
    assert stored.format == train.TRAIN_FORMAT  # type: ignore[attr-defined]


def test_what_was_tried_is_stored_under_the_name_that_older_trains_have() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(FULL))
    assert stored["queue"][0]["told"] == ["its author tried"]
    change = b'{"order": "d", "first": "d", "commit": "c4", "kind": "red", "why": "", "at": 1.0, "told": ["once"]}'
    assert msgspec.json.decode(change, type=train.ReturnedChange).tried == ("once",)


def test_a_train_of_which_little_was_stored_runs_two_checks_at_once_and_moves_the_branch_itself() -> None:
    read = msgspec.json.decode(b'{"repository": "/r/.git", "branch": "main"}', type=train.TrainRecord)
    assert (read.slots, read.policy, read.checks_on, read.forge, read.paused) == (2, "auto", "here", "", None)
    assert (read.red, read.seen) == (1.0, 10.0), "a guess of one in ten until more is known"


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"repository": "r", "branch": "m", "queue": [{"order": "a", "commit": "c", "alone": "?"}]}',
        b'{"repository": "r", "branch": "m", "policy": "fast"}',
        b'{"repository": "r", "branch": "m", "landing": {"old": "a", "new": "b", "tree": "t"}}',
        b'{"branch": "m"}',
    ],
)
def test_a_record_that_says_something_else_is_refused(wrong: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=train.TrainRecord)


def test_a_flag_that_no_one_set_is_off() -> None:
    assert not train.QueuedChange(order="a", commit="c").anyway and not FULL.row[0].apart
    assert not FULL.back[0].forge and not FULL.left_out[0].forge
