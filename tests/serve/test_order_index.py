"""The index: filters as if one looked at every order, finds what was said, and is made anew when it is lost."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.fleet.engine.bus import Entry
from treadle.fleet.orders import encode, read_order
from treadle.serve.order_index import OrderIndex, is_error
from treadle.serve.order_rows import OrderFilter
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AnswerRecord, AskRecord, Attempt, Order, Used

STATES = ("queued", "running", "done", "failed")


def order(name: str, revision: int, **fields: object) -> Entry:
    made = Order(id=name, **{"state": "queued", "changed": 1.0, **fields})  # type: ignore[arg-type]
    return Entry(f"order.{name}", encode(made), revision)


def spec_of(name: str, task: str, revision: int) -> Entry:
    return Entry(f"spec.{name}", encode(Spec(id=name, task=task)), revision)


def event(order: str, seq: int, *events: object, first: int = 1) -> tuple[str, int, bytes]:
    return f"fleet.ev.{order}.1.n1", seq, msgspec.json.encode({"n": first, "events": events})


changes = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"), st.sampled_from(STATES), st.sampled_from(["p", "q", ""]), st.sampled_from("xy")
    ),
    max_size=40,
)


@given(changes, st.sets(st.sampled_from(STATES)), st.sampled_from(["p", "q", ""]), st.integers(1, 5))
def test_a_list_is_what_looking_at_every_order_gives(
    made: list[tuple[str, str, str, str]], states: set[str], project: str, count: int
) -> None:
    index = OrderIndex(":memory:", "f")
    latest: dict[str, tuple[int, str, str]] = {}
    entries = []
    for revision, (name, state, where, agent) in enumerate(made, 1):
        entries.append(order(name, revision, state=state, project=where, agent=agent, title=f"the id of {name}"))
        latest[name] = (revision, state, where)
    index.take_state(entries)
    wanted = OrderFilter(states=tuple(states), project=project)
    fitting = sorted(
        (
            (revision, name)
            for name, (revision, state, where) in latest.items()
            if (not states or state in states) and (not project or where == project)
        ),
        reverse=True,
    )
    seen: list[str] = []
    before = None
    while True:
        page = index.orders(wanted, count=count, before=before)
        assert page.total == len(fitting)
        seen += [row.id for row in page.orders]
        assert page.left_out == len(fitting) - len(seen)
        before = page.next
        if before is None:
            break
    assert seen == [name for _, name in fitting]
    assert [row.id for row in index.window(wanted, 1, 3)] == [name for _, name in fitting[1:4]]
    kept = list(latest.values())
    of_project = [state for _, state, where in kept if not project or where == project]
    of_states = [where for _, state, where in kept if not states or state in states]
    for narrowed in (wanted, msgspec.structs.replace(wanted, text="id of ")):
        facets = index.orders(narrowed, count=1, facets=True).facets
        assert facets["state"] == Counter(of_project) and facets["project"] == Counter(of_states)
    assert index.counts() == Counter(state for _, state, _ in kept)
    index.close()


def test_what_was_taken_in_is_not_taken_in_again(tmp_path: Path) -> None:
    path = str(tmp_path / "index.sqlite")
    index = OrderIndex(path, "f")
    entries = [spec_of("a", "fix the loom", 1), order("a", 2, title="mend")]
    index.take_state(entries)
    index.take_state(entries)
    index.take_events([event("a", 1, {"type": "message", "text": "the shuttle is stuck"})])
    index.take_events([event("a", 1, {"type": "message", "text": "the shuttle is stuck"})])
    assert [chunk.seq for chunk in index.chunks("a")] == [1]
    assert (index.state_at, index.events_at) == (3, 2)
    index.close()
    again = OrderIndex(path, "f")
    assert (again.state_at, again.row("a") is not None) == (3, True)
    again.close()
    assert os.stat(path).st_mode & 0o077 == 0


def test_an_index_of_another_fleet_or_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    first = OrderIndex(str(path), "f")
    first.take_state([order("a", 5)])
    first.close()
    other = OrderIndex(str(path), "g")
    assert other.state_at == 1 and other.row("a") is None
    other.close()
    path.write_bytes(b"this is no database" * 100)
    third = OrderIndex(str(path), "g")
    assert third.state_at == 1
    third.close()


def test_chunks_and_errors_tell_where_to_read() -> None:
    index = OrderIndex(":memory:", "f")
    bad = {"type": "tool_ended", "ok": False}
    index.take_events([event("a", seq, {"type": "message"}, bad, first=2 * seq - 1) for seq in (3, 5, 9)])
    assert [chunk.seq for chunk in index.chunks("a")] == [3, 5, 9]
    assert [chunk.seq for chunk in index.chunks("a", before=9, most=1)] == [5]
    assert [chunk.seq for chunk in index.chunks("a", after=3)] == [5, 9]
    assert index.event_count("a") == 6 and index.first_error("a") == (3, 6) and index.first_error("b") is None
    index.close()


def test_a_question_knows_its_answer_unless_that_was_withdrawn() -> None:
    index = OrderIndex(":memory:", "f")
    asked = AskRecord(order="a", number=1, asked_at=1.0, deadline=2.0, default="deny", text="may I?")
    index.take_state([Entry("ask.a.1", msgspec.json.encode(asked), 1)])
    assert index.ask("a.1") == (asked, None) and index.ask("a.2") is None
    index.take_state([Entry("answer.a.1", b'{"by":"ana"}', 2)])
    assert index.ask("a.1") == (asked, AnswerRecord(by="ana"))
    index.take_state([Entry("answer.a.1", b'{"by":"ana","withdrawn":1}', 3)])
    assert index.ask("a.1") == (asked, None)
    index.close()


used = st.tuples(
    st.sampled_from("abc"), st.booleans(), st.integers(0, 9), st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)
)


@given(st.lists(used, max_size=30))
def test_sums_are_kept_as_orders_change_and_go(made: list[tuple[str, bool, int, int, int, int]]) -> None:
    index = OrderIndex(":memory:", "f")
    now = time.time()
    latest: dict[str, Order] = {}
    for revision, (name, stays, tokens, usd, tries, hours) in enumerate(made, 1):
        attempts = tuple(Attempt(number=each, node="n", placed=5.0, ended=7.0, outcome="lost") for each in range(tries))
        fields = {"used": Used(input_tokens=tokens, usd=usd or None), "attempt": tries, "attempts": attempts}
        entry = order(name, revision, changed=now - 3600 * hours, created=2.0, **fields)
        index.take_state([entry if stays else Entry(f"spec.{name}", b"", revision)])
        latest = {key: value for key, value in latest.items() if key != name}
        latest |= {name: read_order(entry)} if stays else {}
    orders = list(latest.values())
    tries = [len(each.attempts) for each in orders]
    assert index.totals() == {
        "tokens": sum(each.used.tokens for each in orders),
        "usd": sum(each.used.usd or 0 for each in orders),
        "retries": sum(max(0, each - 1) for each in tries),
        "lost": sum(tries),
        "waited": 3.0 * sum(each > 0 for each in tries),
        "started": sum(each > 0 for each in tries),
        "ran": 2.0 * sum(tries),
        "runs": sum(tries),
    }
    by_hour = Counter(each.changed // 3600 * 3600 for each in orders)
    assert {row["hour"]: row["orders"] for row in index.spent()} == by_hour
    assert sum(row["tokens"] for row in index.spent()) == sum(each.used.tokens for each in orders)
    index.close()


def test_an_order_that_was_removed_is_neither_listed_nor_counted_nor_found_any_more() -> None:
    index = OrderIndex(":memory:", "f")
    ask = Entry("ask.a.1", b"{}", 4)
    index.take_state([spec_of("a", "weave a cloth", 1), order("a", 2, state="done"), order("ab", 3), ask])
    index.take_events([event("a", 1, {"type": "message", "text": "the shuttle is stuck"})])
    left = [Entry(f"{kind}.a", b"", 5 + number) for number, kind in enumerate(("order", "receipt", "spec"))]
    assert index.take_state(left) == []
    assert [row.id for row in index.orders(OrderFilter(), count=9).orders] == ["ab"]
    assert index.counts() == {"queued": 1} and index.chunks("a") == []
    assert index.state_at == 8 and index.ask("a.1") is None
    index.close()


def test_a_text_is_looked_for_in_the_narrow_index_and_not_in_the_orders() -> None:
    """Looking for a text looks at every order: 100,000 whole ones would be read each time."""
    asked: list[str] = []
    index = OrderIndex(":memory:", "f")
    index.take_state([order("a", 1, title="Weave"), order("b", 2, title="Spin")])
    index._db.set_trace_callback(lambda query: asked.append(query) if query.startswith("SELECT") else None)
    found = index.orders(OrderFilter(text="WEAV"), count=5, facets=True)
    assert [row.id for row in found.orders] == ["a"] and found.total == 1
    index._db.set_trace_callback(None)
    looking = [query for query in asked if "instr(" in query]
    assert len(looking) == 2  # the rows, and how many of each kind
    for query in looking:
        plan = [str(step[3]) for step in index._db.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert any("COVERING INDEX orders_by_revision" in step for step in plan), plan


@pytest.mark.parametrize(
    ("wanted", "by"),
    [
        (OrderFilter(states=("queued",)), "orders_by_state"),
        (OrderFilter(states=("queued",), agent="null", project="p"), "orders_by_revision"),
        (OrderFilter(needs="asks"), "orders_by_needs"),
    ],
)
def test_rows_are_found_in_the_order_in_which_they_are_shown_or_among_few(wanted: OrderFilter, by: str) -> None:
    """Not all orders of a state and then, one after the other, which of them are of the project."""
    asked: list[str] = []
    index = OrderIndex(":memory:", "f")
    index.take_state([order("a", 1), order("b", 2)])
    index._db.set_trace_callback(asked.append)
    index.window(wanted, 0, 200)
    index._db.set_trace_callback(None)
    (query,) = asked
    plan = [str(step[3]) for step in index._db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert any(f"COVERING INDEX {by}" in step for step in plan), plan
    index.close()


def test_what_was_taken_in_tells_which_rows_have_changed_and_not_those_that_are_gone() -> None:
    index = OrderIndex(":memory:", "f")
    changed = index.take_state([order("a", 1), order("b", 2, state="done"), Entry("spec.a", b"", 3)])
    assert [(row.id, row.revision, row.state) for row in changed] == [("b", 2, "done")]
    assert index.take_state([order("b", 2, state="done")]) == [] and index.take_state([]) == []


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "failed"}, True),
        ({"type": "tool_ended", "ok": False}, True),
        ({"type": "tool_ended"}, False),
        ({"type": "command_run", "exit_code": 1}, True),
        ({"type": "command_run", "exit_code": 0}, False),
        ({"type": "command_run"}, False),
        ({"type": "turn_ended", "outcome": "failed"}, True),
        ({"type": "turn_ended", "outcome": "completed"}, False),
        ({"type": "message", "outcome": "failed", "ok": False, "exit_code": 1}, False),
    ],
)
def test_an_error_is_what_failed_and_nothing_else(event: dict[str, Any], error: bool) -> None:
    assert is_error(event) is error
