"""The rules by which orders move, tried with any sequence of what can be heard."""

import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.placing import place_all, why_waiting
from treadle.wire.fleet.messages import CancelOrder, NoteRequest, RunActivity, RunAsked, RunEnded, SetRequest
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, Used
from treadle.wire.fleet.states import AT_WORK, ENDED, ORDER, IllegalMove, Outcome, State

LEASE = 5.0


def book_with(*specs: Spec, slots: int = 2) -> Book:
    book = Book(LEASE, time.time)
    book.node("n1", 0.0).slots = slots
    for spec in specs:
        book.accept(spec, 0.0)
    return book


def spec(name: str, **fields: object) -> Spec:
    return Spec(id=name, task="t", **{"agent": "null", **fields})  # type: ignore[arg-type]


STEPS = st.lists(
    st.tuples(
        st.sampled_from("place started ended failed lost cancel silence asked resumed set".split()),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_order_ends_once_with_one_receipt_and_attempts_only_grow(steps: list[tuple[str, int, bool]]) -> None:
    specs = [spec(f"o{number}", root="/r", claims=(f"{number % 2}/**",), attempts=2) for number in range(4)]
    book = book_with(*specs)
    now, receipts, attempts = 0.0, dict[str, int](), dict[str, int]()
    for do, which, stale in steps:
        name = f"o{which}"
        row = book.rows.get(name)
        now += 0.1
        book.nodes["n1"].heard = now
        if do == "place":
            place_all(book, now)
        elif do == "silence":
            now += LEASE * 2
            book.nodes["n1"].heard = now
            book.tick(now)
        elif row is None:
            continue
        elif do == "cancel":
            book.request(row, CancelOrder(order=row.spec.id, by="ana"))
        elif do == "set":
            book.request(row, SetRequest(order=row.spec.id, by="ana", priority=which))
        elif row.order.state in AT_WORK and not stale:
            if do == "started":
                book.started(row, now)
            elif do in ("ended", "failed"):
                outcome = "done" if do == "ended" else "failed"
                book.finished(row, RunEnded(order=row.spec.id, attempt=1, outcome=outcome, retryable=True))
            elif do == "lost":
                book.lost(row, "gone")
            elif do == "asked":
                book.asked(row, RunAsked(order=row.spec.id, attempt=1))
            elif do == "resumed":
                book.resumed(row)
        for unit in book.units.values():
            receipts |= {w.key: receipts.get(w.key, 0) + 1 for w in unit.writes if w.key.startswith("receipt.")}
            assert unit.row is not None and attempts.get(unit.row.spec.id, 0) <= unit.row.order.attempt
            attempts[unit.row.spec.id] = unit.row.order.attempt
            assert (unit.row.order.state in ENDED) == any(w.key.startswith("receipt.") for w in unit.writes)
        book.units.clear()
        working = [row for row in book.rows.values() if row.order.state in AT_WORK]
        assert {row.spec.id for row in working} == book.nodes["n1"].at_work and len(working) <= 2
        assert len({row.spec.claims for row in working}) == len(working), "two at work on one claim"
        queued = [row.spec.id for row in book.queued()]
        assert sorted(queued) == sorted(row.spec.id for row in book.rows.values() if row.order.state == "queued")
    assert all(count == 1 for count in receipts.values())


def test_nobody_is_lost_in_a_silence_in_which_nobody_could_be_heard() -> None:
    book = book_with(spec("a"))
    place_all(book, 1.0)
    book.started(book.rows["a"], 1.0)
    book.everybody_heard(100.0)
    book.tick(100.0 + LEASE - 0.1)
    assert book.rows["a"].order.state == "running"
    book.tick(100.0 + LEASE + 0.1)
    assert book.rows["a"].order.attempts[0].outcome == "lost"


def test_a_silent_runner_whose_process_is_seen_is_slow_and_not_lost_for_a_while() -> None:
    book = book_with(spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.started(row, 1.0)
    for now in (10.0, 50.0):
        row.seen = now
        book.tick(now)
        assert row.order.state == "running"
    row.seen = 100.0
    book.tick(100.0)
    assert row.order.attempts[0].outcome == "lost", "it hangs, though it is there"


def test_a_lost_attempt_is_paid_for_and_its_events_are_closed() -> None:
    book = book_with(spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.spend(row, Used(input_tokens=70, usd=0.5))
    book.lost(row, "gone")
    assert row.order.used.tokens == 70 and book.control.budgets["fleet"].spent_usd == 0.5
    assert [say.subject for say in book.says if say.stored] == ["fleet.ev.a.1.n1"]


def test_what_has_no_price_is_counted_apart_and_never_as_free() -> None:
    book = book_with(spec("a", project="p"))
    place_all(book, 1.0)
    book.spend(book.rows["a"], Used(input_tokens=10))
    budget = book.control.budgets["project:p"]
    assert budget.spent_usd == 0.0 and budget.unpriced_tokens == 10


def test_the_same_order_taken_in_twice_changes_nothing() -> None:
    book = book_with(spec("a"))
    book.units.clear()
    book.accept(spec("a"), 1.0)
    assert book.units == {} and len(book.rows) == 1


def test_a_question_that_is_told_again_stays_the_one_that_is_open() -> None:
    book = book_with(spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.started(row, 1.0)
    first, second = (RunAsked(order="a", attempt=1, ask=AgentQuestion(text="?"), nth=nth) for nth in (1, 2))
    book.asked(row, first)
    book.asked(row, first)
    assert row.order.asks == 1 and row.order.open_ask == "a.1"
    book.resumed(row, 1)
    book.asked(row, second)
    book.resumed(row, 1)  # told again, as after a kill of the engine
    book.asked(row, first)
    assert (row.order.state, row.order.open_ask) == ("asking", "a.2")
    book.resumed(row, 2)
    book.asked(row, second)
    assert (row.order.state, row.order.open_ask, row.order.asks) == ("running", "", 2)


def test_a_line_of_thousands_is_looked_through_only_as_far_as_there_is_room() -> None:
    book = book_with(*(spec(f"o{number}") for number in range(5000)), slots=3)
    began = time.perf_counter()
    assert place_all(book, 0.0) == 3 and place_all(book, 0.0) == 0
    assert time.perf_counter() - began < 60


def test_a_stall_in_the_setup_is_told_once_and_the_agent_is_interrupted_only_when_there_is_one() -> None:
    book = book_with(spec("o", on_stall="interrupt", stall_seconds=1.0))
    place_all(book, 0.0)
    row = book.rows["o"]
    book.started(row, 0.0)
    row.activity = RunActivity(last_event=time.time() - 9, began=False)
    book.tick(0.0)
    book.tick(0.0)
    assert [say.subject for say in book.says] == ["fleet.notice.o"]
    row.activity = replace(row.activity, began=True)
    book.tick(0.0)
    book.tick(0.0)
    assert [say.subject for say in book.says] == ["fleet.notice.o", "fleet.notice.o", "fleet.tell.n1.o"]


HISTORY = st.lists(
    st.tuples(
        st.sampled_from([*get_args(Outcome), *"place started asked again resumed answer cancel set silence".split()]),
        st.integers(0, 2),
        st.floats(0, 30),
    ),
    max_size=50,
)


def played(history: list[tuple[str, int, float]]) -> tuple[list[object], list[tuple[State, State]]]:
    """All that the book wants written and said in a history, and each move of an order."""
    now = [1_700_000_000.0]
    book = Book(LEASE, lambda: now[0])
    book.node("n1", 0.0).slots = 2
    orders = [spec("o0", root="/r", claims=("a",)), spec("o1", after=("o0",), if_failed="skip"), spec("o2", every=60.0)]
    for each in orders:
        book.accept(each, 0.0)
    written: list[object] = []
    moves: list[tuple[State, State]] = []
    states: dict[str, State] = {}
    for do, which, seconds in history:
        now[0] += seconds
        at = now[0] - 1_700_000_000.0
        book.nodes["n1"].heard = at
        row = book.rows.get(f"o{which}")
        attempt = {"order": f"o{which}", "attempt": 1}
        try:
            if do == "place":
                place_all(book, at)
            elif do == "silence":
                book.tick(at)
            elif row is None:
                continue
            elif do == "cancel":
                book.request(row, CancelOrder(order=row.spec.id, by="ana"))
            elif do == "set":
                book.request(row, SetRequest(order=row.spec.id, by="ana", priority=which))
            elif do == "answer" and row.order.parked:
                book.unpark(row, AnswerRecord(decision="allow", by="ana"))
            elif row.order.state not in AT_WORK or not row.order.node:
                continue  # the scheduler drops what is not about the current attempt
            elif do == "started":
                book.started(row, at)
            elif do in ("asked", "again"):
                again = row.order.open_ask if do == "again" else ""
                book.asked(row, RunAsked(**attempt, nth=which, again=again))
            elif do == "resumed":
                book.resumed(row, which)
            elif do == "lost":
                book.lost(row, "gone")
            elif do in get_args(Outcome):
                book.finished(row, RunEnded(**attempt, outcome=do, retryable=which == 1))
        finally:
            for name, unit in book.units.items():
                written.append((name, unit.writes))
                if unit.row is not None:
                    moves.append((states.get(name, "queued"), unit.row.order.state))
                    states[name] = unit.row.order.state
            written += book.says
            book.units.clear()
            book.says.clear()
    return written, moves


@given(HISTORY)
def test_the_same_history_has_the_same_outcome_whenever_it_is_played(history: list[tuple[str, int, float]]) -> None:
    """The book is pure: it reads no clock and throws no dice."""
    assert played(history) == played(history)


@given(HISTORY)
def test_orders_move_only_as_their_table_says(history: list[tuple[str, int, float]]) -> None:
    possible = {(before, after) for (before, _), after in ORDER.items()}
    several = possible | {(a, c) for a, b in possible for b2, c in possible if b == b2}  # two moves in one batch
    _, moves = played(history)
    assert {move for move in moves if move[0] != move[1]} <= several


def test_an_attempt_that_has_ended_does_not_end_again() -> None:
    book = book_with(spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    row.order = replace(row.order, attempts=(replace(row.order.attempts[0], outcome="lost"),))
    before = row.order
    with pytest.raises(IllegalMove, match="done is not possible in the state lost"):
        book.finished(row, RunEnded(order="a", attempt=1, outcome="done"))
    assert row.order == before
    with pytest.raises(IllegalMove, match="place"):
        book.move(row, "place")


def test_a_move_never_overwrites_newer_state_and_a_receipt_never_another() -> None:
    """Everything that is written of an order is written on the revision that was read."""
    book = book_with(spec("a"))
    row = book.rows["a"]
    book.units.clear()
    row.revision = 17
    place_all(book, 1.0)
    assert {write.key: write.expect for write in book.units["a"].writes}["order.a"] == 17
    book.finished(row, RunEnded(order="a", attempt=1, outcome="done"))
    written = {write.key: write.expect for write in book.units["a"].writes}
    assert (written["order.a"], written["receipt.a"]) == (17, 0)


def test_finished_work_that_names_a_branch_is_marked_for_landing_with_its_end_and_other_work_is_not() -> None:
    orders = [spec("lands", land="main", root="/r"), spec("stays", root="/r"), spec("empty", land="main", root="/r")]
    book = book_with(*orders, spec("fails", land="main", root="/r"), slots=9)
    place_all(book, 0.1)
    for name, outcome in (("lands", "done"), ("stays", "done"), ("empty", "done"), ("fails", "failed")):
        commit = {} if name == "empty" else {"commit": "c" * 40}
        report = RunEnded(order=name, attempt=1, outcome=outcome, result=commit)
        book.finished(book.rows[name], report)
    marks = {name for name, unit in book.units.items() for write in unit.writes if write.key == f"boards.{name}"}
    assert marks == {"lands"}


def test_an_order_that_lands_waits_until_what_it_comes_after_has_landed_and_another_does_not() -> None:
    orders = [spec("first", land="main"), spec("lands", land="main", after=("first",)), spec("other", after=("first",))]
    book = book_with(*orders, slots=9)
    place_all(book, 0.1)
    first = book.rows["first"]
    book.finished(first, RunEnded(order="first", attempt=1, outcome="done", result={"commit": "c" * 40}))
    place_all(book, 0.2)
    assert book.rows["other"].order.state == "placed" and book.rows["lands"].order.state == "queued"
    wait = why_waiting(book, book.rows["lands"])
    assert wait is not None and wait.text == "after first, which is done and has not landed yet"
    book.request(first, NoteRequest(order="first", by="train", what="did not land", result={"not_landed": "red"}))
    place_all(book, 0.3)
    assert book.rows["lands"].order.state == "queued"
    book.request(first, NoteRequest(order="first", by="train", what="landed", result={"merged": "d" * 40}))
    place_all(book, 0.4)
    assert book.rows["lands"].order.state == "placed"


def test_an_order_for_a_person_is_asked_at_once_takes_no_slot_and_ends_with_the_answer() -> None:
    book = book_with(spec("q", agent="person", title="Go on?"), spec("a"), slots=1)
    row = book.rows["q"]
    assert row.order.parked and row.asks["q.1"].title == "Go on?" and row.asks["q.1"].words == "t"
    assert place_all(book, 1.0) == 1 and book.nodes["n1"].at_work == {"a"}
    book.unpark(row, AnswerRecord(decision="deny", by="ana", text="not today"))
    assert "q" not in book.rows and row.order.state == "done" and row.order.why == "ana answered: deny"
    assert row.order.result == {"decision": "deny", "by": "ana", "says": "not today"}


def test_a_question_to_a_person_may_be_taken_back_and_has_a_deadline() -> None:
    book = book_with(spec("q", agent="person", answer_seconds=0.0), spec("other", agent="person"))
    book.tick(1.0)
    assert [key for key, _ in book.unanswered] == ["answer.q.1"]
    book.request(book.rows["other"], CancelOrder(order="other", by="ana"))
    assert list(book.rows) == ["q"]


def test_who_had_a_turn_under_the_last_scheduler_does_not_get_the_next_one() -> None:
    """A scheduler that takes over after each order must not begin with the same project every time."""
    before = book_with(*(spec(f"a{n}", project="a") for n in range(3)), spec("b0", project="b"), slots=1)
    assert place_all(before, 0.0) == 1 and before.rows["a0"].order.state == "placed"
    after = Book(LEASE, time.time)
    after.node("n1", 0.0).slots = 2
    for row in before.rows.values():
        after.add(row.spec, row.order, row.revision, 0.0)
    place_all(after, 0.0)
    assert after.rows["b0"].order.state == "placed" and after.rows["a1"].order.state == "queued"
