"""The rules by which orders move, tried with any sequence of what can be heard."""

import time
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.fleet.engine.bus import Write
from treadle.fleet.schedule.book import Book, OpenOrder
from treadle.fleet.schedule.placing import place_all, why_waiting
from treadle.wire.fleet.messages import CancelOrder, NoteRequest, RunActivity, RunAsked, RunEnded, SetRequest
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, Budget, Note, Park, Used
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


def test_a_budget_for_a_day_begins_anew_at_midnight_and_the_others_do_not() -> None:
    book = book_with()
    spent = Budget(usd=1.0, spent_usd=2.0, spent_tokens=3, unpriced_tokens=4)
    day = replace(spent, daily=True, day="2026-11-17")
    book.change_control(budgets={"fleet": day, "project:p": spent})
    for date, left in (("2026-11-17", 2.0), ("2026-11-18", 0.0)):
        at = time.mktime(time.strptime(f"{date} 12:00", "%Y-%m-%d %H:%M"))
        book.wall = iter([at] * 9).__next__
        book.tick(1.0)
        assert book.control.budgets["fleet"].spent_usd == left and book.control.budgets["project:p"] == spent
    assert book.control.budgets["fleet"] == Budget(usd=1.0, daily=True, day="2026-11-18")


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


# What each thing that is heard leads to, one at a time...

WALL = 1_700_000_000.0


def working(name: str = "a", *others: Spec, state: str = "running", **fields: object) -> tuple[Book, OpenOrder]:
    """A book, and an order in it that is placed on n1, and has started there."""
    book = Book(LEASE, lambda: WALL)
    book.node("n1", 0.0).slots = 9
    for each in (spec(name, **fields), *others):
        book.accept(each, 0.0)
    place_all(book, 0.0)
    if state == "running":
        book.started(book.rows[name], 0.0)
    book.units.clear()
    book.says.clear()
    return book, book.rows[name]


def ended(outcome: Outcome = "failed", **fields: object) -> RunEnded:
    return RunEnded(order="a", attempt=1, outcome=outcome, **fields)  # type: ignore[arg-type]


def told(book: Book) -> list[tuple[str, Any]]:
    return [(say.subject, msgspec.json.decode(say.data)) for say in book.says]


def test_changes_of_one_order_are_written_as_one_and_the_last_of_each_key_counts() -> None:
    book, row = working()
    row.revision = 4
    book.change(row, Write("x", b"1"), Write("y", b"1"), priority=3)
    book.change(row, Write("x", b"2"), priority=4)
    head, *rest = book.units["a"].writes
    assert (head.key, head.expect, book.units["a"].row) == ("order.a", 4, row) and rest == [
        Write("y", b"1"),
        Write("x", b"2"),
    ]
    assert msgspec.json.decode(head.value)["priority"] == row.order.priority == 4 and row.order.changed == WALL


def test_an_order_comes_in_active_and_one_that_comes_after_a_failure_is_skipped_if_it_says_so() -> None:
    book = Book(LEASE, lambda: WALL)
    book.fate = {"bad": "failed", "good": "done", "stopped": "cancelled"}
    for name, after, if_failed in (
        ("s1", "bad", "skip"),
        ("s2", "stopped", "skip"),
        ("s3", "s1", "skip"),
        ("w1", "bad", "block"),
        ("w2", "good", "skip"),
    ):
        book.accept(spec(name, after=(after,), if_failed=if_failed), 3.0)
    assert [*book.rows] == ["w1", "w2"] and book.rows["w1"].heard == 3.0
    whys = {name: unit.row.order.why for name, unit in book.units.items() if unit.row and unit.row.order.ended}
    assert whys == {
        "s1": "it comes after bad, which failed",
        "s2": "it comes after stopped, which was cancelled",
        "s3": "it comes after s1, which was skipped",
    }
    assert [write.key for write in book.units["w1"].writes] == ["order.w1", "active.w1"]
    assert book.units["s1"].row is not None and book.units["s1"].row.order.reason == "after_failed"


@pytest.mark.parametrize(
    ("report", "state", "why", "reason"),
    [
        (ended("done", why="there", reason="x"), "done", "there", ""),
        (ended("cancelled", why="no", reason="cancelled"), "cancelled", "no", "cancelled"),
        (ended("failed", why="bad", reason="model"), "failed", "bad", "model"),
        (ended("failed", why="bad"), "failed", "bad", "unknown"),
        (ended("not_here", why="no gpu"), "failed", "n1: no gpu", "not_here"),
        (ended("handed_back"), "queued", "", ""),
        (ended("parked"), "queued", "", ""),  # there is no question that it could wait for
        (ended("failed", fault="ours"), "queued", "", ""),
    ],
)
def test_each_end_of_an_attempt_ends_the_order_or_gives_it_back(
    report: RunEnded, state: str, why: str, reason: str
) -> None:
    book, row = working()
    book.finished(row, msgspec.structs.replace(report, used=Used(input_tokens=7), resumed="brief", output="out"))
    assert (row.order.state, row.order.why, row.order.reason) == (state, why, reason)
    last = row.order.attempts[-1]
    assert (last.ended, last.outcome, last.resumed, last.output) == (WALL, report.outcome, "brief", "out")
    assert row.order.used.tokens == last.used.tokens == 7 and row.order.counted == Used()
    assert book.control.budgets["fleet"].spent_tokens == 7 and book.nodes["n1"].at_work == set()
    keys = {write.key: write.purge for write in book.units["a"].writes}
    assert keys["work.n1.a"] and ("a" in book.rows) is (state == "queued")
    assert {"active.a", "receipt.a"} <= keys.keys() if state != "queued" else keys.keys() == {"order.a", "work.n1.a"}


def test_an_order_that_is_lost_is_tried_again_ends_or_was_to_end_anyway() -> None:
    for fields, cancel, state, why in (
        ({"attempts": 2}, None, "queued", ""),
        ({"attempts": 1}, None, "failed", "given up after 1 attempts, the last of them lost: gone"),
        ({"attempts": 2}, Note(at=1.0, by="ana", what="by ana"), "cancelled", "by ana; its runner was gone by then"),
    ):
        book, row = working("a", **fields)  # type: ignore[arg-type]
        row.order = replace(row.order, cancel=cancel, counted=Used(input_tokens=5))
        row.activity = RunActivity(resumed="session")
        book.lost(row, "gone")
        assert (row.order.state, row.order.why) == (state, why)
        last = row.order.attempts[-1]
        assert (last.outcome, last.why, last.used.tokens, last.resumed) == ("lost", "gone", 5, "session")
        assert told(book)[:2] == [
            ("fleet.ev.a.1.n1", {"end": "superseded", "why": "gone"}),
            ("fleet.tell.n1.a", {"do": "leave", "attempt": 1}),
        ]
        assert [say.stored for say in book.says[:2]] == [True, False] and row.order.counted == Used()


def asking(kind: str = "tool", **fields: object) -> tuple[Book, OpenOrder]:
    """An order that was parked with a question."""
    book, row = working("a", **fields)  # type: ignore[arg-type]
    question = AgentQuestion(kind=kind, text="?", request="r1")
    book.asked(row, RunAsked(order="a", attempt=1, ask=question, nth=1))
    book.finished(row, ended("parked"))
    book.units.clear()
    return book, row


def test_an_order_that_is_parked_keeps_its_question_and_holds_no_slot() -> None:
    book, row = asking()
    assert row.order.parked and row.order.open_ask == "a.1" and book.nodes["n1"].at_work == set()
    assert [*row.asks] == ["a.1"] and told(book) == [("fleet.tell.n1.a", {"do": "ask", "request": "r1", "ask": "a.1"})]
    assert [each.spec.id for each in book.at_work()] == ["a"], "its claims stay its own"
    book.unpark(row, AnswerRecord(decision="deny", by="ana"))
    assert row.order.state == "queued" and row.order.open_ask == "a.1" and [*row.asks] == ["a.1"]


def test_more_budget_is_given_or_the_order_ends() -> None:
    limits = OrderLimits(tokens=70)
    book, row = asking("budget", limits=limits)
    book.unpark(row, AnswerRecord(decision="allow", by="ana"))
    assert (row.order.state, row.order.limits.tokens, row.order.open_ask) == ("queued", 140, "") and row.asks == {}
    assert row.order.notes[-1].what == "raised its limits: 70 tokens -> 140 tokens" and row.order.notes[-1].by == "ana"
    book, row = asking("budget", limits=limits)
    book.unpark(row, AnswerRecord(decision="deny", by="ana"))
    assert (row.order.state, row.order.reason) == ("failed", "budget_exceeded")
    assert row.order.why == "its budget was not raised: refused by ana" and row.asks == {}


def test_an_order_whose_limits_are_a_share_goes_on_unasked_while_the_budget_of_all_has_more() -> None:
    share = OrderLimits(tokens=40, seconds=9.0)
    fields = {"project": "p", "shares": True, "limits": share}
    for budget, limits in ((None, None), (100, 70), (60, 60), (30, None)):
        book, row = working("a", **fields)  # type: ignore[arg-type]
        book.change_control(budgets={} if budget is None else {"project:p": Budget(tokens=budget)})
        question = AgentQuestion(kind="budget", text="?", request="budget")
        book.asked(row, RunAsked(order="a", attempt=1, ask=question))
        assert bool(row.order.open_ask) == (budget is None), "without a budget of all, it is asked itself"
        book.finished(row, ended("parked", used=Used(input_tokens=30)))
        assert (row.order.state, bool(place_all(book, 0.0))) == (
            "asking" if budget is None else "queued",
            limits is not None,
        )
        if limits is not None:
            assert row.order.limits == replace(share, tokens=limits), "as much again, or all that is left"


def test_the_end_of_an_order_has_a_receipt_and_is_told_and_what_repeats_begins_again() -> None:
    book, row = working("a", spec("child", after=("a",), if_failed="skip"), every=60.0)
    row.order = replace(row.order, result={"old": 1}, notes=(Note(at=1.0, by="x", what="y"),))
    report = ended(
        "failed", why="bad", reason="model", result={"commit": "c"}, receipt={"r": 1}, approvals=[{"by": "x"}]
    )
    book.finished(row, report)
    writes = {write.key: write for write in book.units["a"].writes}
    receipt = msgspec.json.decode(writes["receipt.a"].value)
    assert (receipt["outcome"], receipt["why"], receipt["reason"]) == ("failed", "bad", "model")
    assert receipt["result"] == {"old": 1, "commit": "c"} and receipt["run"] == {"r": 1}
    assert receipt["approvals"] == [{"by": "x"}] and receipt["notes"][0]["what"] == "y" and receipt["ended"] == WALL
    assert writes["active.a"].purge and writes["work.n1.a"].purge and row.order.open_ask == ""
    assert told(book)[0] == ("fleet.ended.a", {"state": "failed", "why": "bad", "reason": "model"})
    assert book.fate == {"a": "failed", "child": "skipped"} and book.rows == {}
    (again,) = [msgspec.json.decode(write.value) for key, write in writes.items() if key.startswith("spec.")]
    assert (again["series"], again["not_before"], again["created"]) == ("a", WALL + 60.0, WALL)
    book, row = working("a", every=60.0, series="first")
    book.request(row, CancelOrder(order="a", by="ana"))
    book.finished(row, ended("cancelled"))
    assert not any(write.key.startswith("spec.") for write in book.units["a"].writes), "it was to end"
    book, row = working("b", series="first", cron="0 6 * * *")
    row.spec = replace(row.spec, zone="No/Where")
    book.finished(row, RunEnded(order="b", attempt=1, outcome="done"))
    assert row.order.notes[-1].what.startswith("it is not repeated: there is no time zone 'No/Where'")


def test_a_person_stops_what_runs_and_ends_what_waits() -> None:
    book, row = working()
    book.request(row, CancelOrder(order="a", by="ana", why="no use"))
    assert row.order.state == "running" and told(book) == [
        ("fleet.tell.n1.a", {"do": "cancel", "why": "cancelled by ana: no use"})
    ]
    assert row.order.cancel == row.order.notes[-1] == Note(at=WALL, by="ana", what="cancelled by ana: no use")
    book.accept(spec("w"), 0.0)
    waits = book.rows["w"]
    book.request(waits, CancelOrder(order="w", by="ana"))
    assert (waits.order.state, waits.order.why, waits.order.reason) == ("cancelled", "cancelled by ana", "cancelled")
    assert list(book.queued()) == []
    book, row = asking()
    book.request(row, CancelOrder(order="a", by="ana"))
    assert row.order.state == "cancelled"


def test_a_person_sets_priority_and_limits_and_both_are_noted() -> None:
    book, row = working("a", limits=OrderLimits(tokens=10, usd=1.0))
    book.accept(spec("w"), 0.0)
    book.accept(spec("x"), 0.0)
    book.request(book.rows["x"], SetRequest(order="x", by="ana", priority=9))
    assert [each.spec.id for each in book.queued()] == ["x", "w"] and book.rows["x"].order.priority == 9
    assert book.rows["x"].order.notes[-1].what == "set priority 5 -> 9"
    book.request(row, SetRequest(order="a", by="ana", limits={"tokens": 20}, why="it is worth it"))
    assert row.order.limits == OrderLimits(tokens=20, usd=1.0) and row.order.state == "running"
    assert row.order.notes[-1] == Note(at=WALL, by="ana", what="set tokens 10 -> 20 (it is worth it)")
    assert [each.spec.id for each in book.queued()] == ["x", "w"], "what runs is not in line"


def test_a_node_that_is_gone_or_does_not_start_it_loses_it() -> None:
    for heard, now, why in (
        (0.0, LEASE, ""),
        (0.0, LEASE + 0.1, "n1 was gone before it could start it"),
        (60.0, 60.0, ""),
        (60.1, 60.1, "n1 did not start it within 60 s"),
    ):
        book, row = working(state="placed")
        book.nodes["n1"].heard = heard
        book.tick(now)
        assert row.order.attempts[0].why == why, (heard, now)


@pytest.mark.parametrize(
    ("fields", "do", "state"),
    [
        ({"on_stall": "notify"}, "notify", "running"),
        ({"on_stall": "retry"}, "retry", "queued"),
        ({"on_stall": "cancel"}, "cancel", "running"),
        ({"on_stall": "interrupt"}, "interrupt", "running"),
        ({"retry_on": ("stall",)}, "retry", "queued"),
    ],
)
def test_a_run_that_stalls_is_dealt_with_as_it_says(fields: dict[str, object], do: str, state: str) -> None:
    book, row = working("a", stall_seconds=1.0, **fields)
    row.heard = 10_000.0
    row.activity = RunActivity(last_event=WALL - 1.0, began=True)
    book.tick(10_000.0)
    assert book.says == []
    row.activity = RunActivity(last_event=WALL - 9.0, began=True)
    book.tick(10_000.0)
    what = "stalled: nothing came from the agent for 9 s"
    assert told(book)[0] == ("fleet.notice.a", {"order": "a", "what": what, "do": do})
    assert row.order.notes[0].what == f"{what}; so: {do}" and row.order.state == state
    instructions = [value for subject, value in told(book) if subject == "fleet.tell.n1.a"]
    stop = f"cancelled by fleet: {what}"
    wanted = {"interrupt": ("nudge", what), "cancel": ("cancel", stop), "retry": ("leave", None), "notify": None}[do]
    assert [(each["do"], each.get("why")) for each in instructions] == ([wanted] if wanted else [])


def test_a_question_whose_time_is_over_is_answered_by_default_once() -> None:
    book, row = working("a", answer_seconds=0.0, answer_default="allow")
    other, later = working("a", answer_seconds=1.0)
    for each, one in ((book, row), (other, later)):
        each.asked(one, RunAsked(order="a", attempt=1, ask=AgentQuestion(text="?"), nth=1))
        each.tick(0.0)
        each.tick(0.0)
    ((key, data),) = book.unanswered
    assert key == "answer.a.1" and msgspec.json.decode(data, type=AnswerRecord) == AnswerRecord(
        decision="allow", by="deadline", text="no one answered in time", at=WALL
    )
    assert row.asks == {} and other.unanswered == [] and [*later.asks] == ["a.1"]


def test_accounts_that_were_parked_long_ago_and_ends_that_no_one_waits_for_are_forgotten() -> None:
    book, _ = working("a", spec("child", after=("kept",)))
    book.control = replace(book.control, parks={"old": Park(until=WALL - 3600), "new": Park(until=WALL - 3599)})
    book.children["kept"].add("gone")
    book.children["lost"] = {"gone"}
    book.fate = {"kept": "done", "lost": "done", **{f"x{number}": "done" for number in range(1002)}}
    book.unlanded = {"kept": "kept", "lost": "lost"}
    book.tick(0.0)
    assert [*book.control.parks] == ["new"] and book.control_changed and len(book.fate) == 1004
    book.control_changed = False
    book.fate["x"] = "done"
    book.tick(0.0)
    assert book.fate == {"kept": "done"} and book.children == {"kept": {"child"}} and book.unlanded == {"kept": "kept"}
    assert not book.control_changed


def test_others_in_the_same_repository_hold_their_claims() -> None:
    others = [spec("b", root="/r", claims=("src/**",)), spec("c", root="/other", claims=("x",)), spec("d", root="/r")]
    book, row = working("a", *others, root="/r", claims=("docs/**",))
    assert book.claims_of_others(row) == {"b": ["src/**"]}
    alone, own = working("a", spec("b"))
    assert alone.claims_of_others(own) == {}, "without a repository nothing is shared"
