"""Which order goes where, and why one waits: the rules alone, without an engine."""

import time

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet.schedule.book import Book, tries
from treadle.fleet.schedule.placing import explain_wait, place_all, rate_limited, refuses, why_waiting
from treadle.wire.fleet.messages import RunEnded, Wait
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import NOT_HERE, Attempt, Budget, Note, Park, Used


def waits(book: Book, name: str) -> Wait:
    place_all(book, 0.0)
    row = book.rows[name]
    assert row.order.state == "queued", row.order
    found = explain_wait(book, row, 0.0).waits
    assert found is not None
    return found


def node_of(book: Book, name: str) -> str:
    place_all(book, 0.0)
    return book.rows[name].order.node


def end(book: Book, name: str, outcome: str = "done", why: str = "", used: Used | None = None) -> None:
    book.finished(book.rows[name], RunEnded(order=name, attempt=1, outcome=outcome, why=why, used=used or Used()))


def note(by: str = "ana") -> Note:
    return Note(at=1.0, by=by, what="later")


def test_overlapping_claims_wait_and_name_the_holder_and_others_do_not() -> None:
    claims = {"first": ("/r", "src/**"), "second": ("/r", "src/a.py"), "third": ("/r", "docs/*"), "far": ("/q", "**")}
    book = book_with(*(spec(name, root=root, claims=(claim,)) for name, (root, claim) in claims.items()), slots=4)
    found = waits(book, "second")
    assert (found.kind, found.holder) == ("claim", "first") and "src/a.py overlaps src/**" in found.text
    assert node_of(book, "third") == node_of(book, "far") == "n1"
    end(book, "first")
    assert node_of(book, "second") == "n1"


@pytest.mark.parametrize(
    ("other", "waits_for"),
    [
        ({"land": "main"}, ""),
        ({"land": "main", "overlap": "wait"}, "first"),
        ({"land": "release"}, "first"),
        ({}, "first"),
    ],
)
def test_overlapping_claims_keep_no_order_waiting_that_lands_on_the_same_branch(
    other: dict[str, str], waits_for: str
) -> None:
    first = spec("first", root="/r", claims=("src/**", "docs/a.md"), land="main")
    book = book_with(first, spec("second", root="/r", claims=("src/a.py",), **other), slots=2)
    assert (node_of(book, "second") == "") == bool(waits_for)
    if waits_for:
        assert waits(book, "second").holder == waits_for
    else:
        assert book.claims_of_others(book.rows["second"]) == {"first": ["docs/a.md"]}, "what both claim is open to both"
        assert book.claims_of_others(book.rows["first"]) == {}


def test_the_most_urgent_go_first_and_the_rest_wait_for_a_slot_in_line() -> None:
    book = book_with(spec("low", priority=1), spec("high", priority=9), spec("middle", priority=3), slots=1)
    assert node_of(book, "high") == "n1"
    assert waits(book, "low").kind == "slot" and explain_wait(book, book.rows["low"], 0.0).place == 2
    book.nodes["n1"].slots = 2
    assert node_of(book, "middle") == "n1" and waits(book, "low").kind == "slot"


def test_what_comes_after_another_waits_for_it_and_after_a_failure_as_it_was_told() -> None:
    after = {"waits": "block", "goes": "run", "skipped": "skip"}
    book = book_with(spec("parent"), *(spec(name, after=("parent",), if_failed=how) for name, how in after.items()))
    book.accept(spec("orphan", after=("nobody",)), 0.0)
    assert waits(book, "waits").holder == "parent" and "no one knows" in waits(book, "orphan").text
    end(book, "parent", "failed")
    assert node_of(book, "goes") == "n1" and "skipped" not in book.rows
    assert "ended as failed: retry that" in waits(book, "waits").text
    book.follow_retry("parent", "again")
    assert waits(book, "waits").holder == "again"


@pytest.mark.parametrize("scope", ["fleet", "order:o", "agent:null", "credential:work", "label:l", "project:p"])
def test_a_pause_of_any_scope_holds_what_waits_and_says_by_whom(scope: str) -> None:
    book = book_with(spec("o", credential="work", labels=("l",), project="p"), spec("other", agent="claude"))
    book.nodes["n1"].labels = frozenset({"l"})
    book.change_control(pauses={scope: note()})
    assert (waits(book, "o").kind, waits(book, "o").holder) == ("paused", "ana")
    if scope != "fleet":
        assert node_of(book, "other") == "n1"
    book.change_control(pauses={})
    assert node_of(book, "o") == "n1"


def test_a_budget_holds_what_does_not_fit_beside_what_is_reserved() -> None:
    limits = {"first": 800, "second": 300}
    book = book_with(*(spec(name, project="p", limits=OrderLimits(tokens=most)) for name, most in limits.items()))
    book.accept(spec("other", project="q"), 0.0)
    book.change_control(budgets={"project:p": Budget(tokens=1000)})
    assert node_of(book, "first") == node_of(book, "other") == "n1"
    book.nodes["n1"].slots = 5
    assert "0 tokens spent and 800 reserved of 1000" in waits(book, "second").text
    book.change_control(budgets={"project:p": Budget(tokens=2000)})
    assert node_of(book, "second") == "n1"


def test_a_budget_in_money_reserves_a_share_for_what_has_no_limit_of_its_own() -> None:
    book = book_with(spec("o", limits=OrderLimits(usd=3.0)), spec("none"))
    book.change_control(budgets={"fleet": Budget(usd=5.0, spent_usd=3.0)})
    assert node_of(book, "none") == "n1"
    assert "3.00 USD spent and 0.50 reserved of 5.00" in waits(book, "o").text


def test_a_rate_limit_holds_everybody_on_the_account_and_then_lets_them_back_one_by_one() -> None:
    book = book_with(*(spec(f"o{number}", credential="work") for number in range(3)), spec("free"), slots=9)
    rate_limited(book, "work", time.time() + 60, "429")
    found = waits(book, "o0")
    assert found.kind == "rate" and found.until is not None and "work is at its rate limit until" in found.text
    assert node_of(book, "free") == "n1"
    book.change_control(parks={"work": type(book.control.parks["work"])(until=time.time() - 1, why="429")})
    book.back_at["work"] = 0.0
    assert node_of(book, "o0") == "n1"
    assert "come back one by one" in waits(book, "o1").text


def test_at_most_so_many_at_once_in_the_fleet_and_on_a_node() -> None:
    book = book_with(spec("a"), spec("b"), spec("c", agent="other", root="/r"), spec("d", agent="other", root="/r"))
    book.nodes["n1"].slots = 9
    book.change_control(limits={"agent:null": 1})
    book.nodes["n1"].limits = {"repo": 1}
    assert waits(book, "b").text == "1 at once for agent:null"
    assert waits(book, "d").text == "n1 takes 1 at once for repo:/r"
    assert node_of(book, "a") == node_of(book, "c") == "n1"


def test_what_a_node_lacks_goes_to_another_without_costing_an_attempt_and_fails_when_nobody_is_left() -> None:
    book = book_with(spec("o", root="/r", attempts=1), slots=3)
    book.node("n2", 0.0).slots = 1
    book.node("gpu", 0.0).agents = frozenset({"claude"})
    assert node_of(book, "o") == "n1"
    end(book, "o", NOT_HERE, why="no /r here")
    row = book.rows["o"]
    assert row.order.state == "queued" and tries(row.spec, row.order) == 0
    assert "n1 turned it down: no /r here" in explain_wait(book, row, 0.0).nodes
    assert node_of(book, "o") == "n2" and row.order.attempt == 2
    end(book, "o", NOT_HERE, why="none here either")
    assert "o" not in book.rows and row.order.state == "failed"
    assert row.order.why == "n1: no /r here; n2: none here either"


def test_an_order_that_was_turned_down_waits_for_a_node_that_is_silent_now() -> None:
    book = book_with(spec("o", root="/r"))
    book.node("away", -60.0).slots = 4
    assert node_of(book, "o") == "n1"
    end(book, "o", NOT_HERE, why="no /r here")
    assert "away was not heard" in "".join(explain_wait(book, book.rows["o"], 0.0).nodes)
    assert waits(book, "o").kind == "node"
    book.nodes["away"].heard = 0.0
    assert node_of(book, "o") == "away" and book.rows["o"].order.used == Used()


def waiting(book: Book, name: str = "a") -> tuple[str, str]:
    found = why_waiting(book, book.rows[name])
    return (found.kind, found.text) if found is not None else ("", "")


def test_what_keeps_an_order_is_told_in_the_order_in_which_it_would_be_undone() -> None:
    book = book_with(
        spec(
            "a", project="p", labels=("l",), after=("b",), not_before=4e9, credential="c", limits=OrderLimits(tokens=9)
        ),
        spec("b"),
    )
    note = Note(at=1.0, by="ana", what="lunch")
    book.change_control(
        pauses={"label:l": note},
        parks={"c": Park(until=4e9, why="slow down")},
        budgets={"project:p": Budget(tokens=5)},
        limits={"agent:null": 0},
    )
    assert waiting(book) == ("paused", "label:l is paused by ana: lunch")
    book.change_control(pauses={"label:other": note})
    kind, text = waiting(book)
    assert kind == "time" and text.startswith("not before 20")
    row = book.rows["a"]
    row.order = replace(row.order, not_before=0.0)
    assert waiting(book) == ("dependency", "after b, which is queued")
    book.fate["b"] = "failed"
    assert waiting(book) == ("dependency", "after b, which ended as failed: retry that")
    book.fate["b"] = "done"
    kind, text = waiting(book)
    assert kind == "rate" and text.startswith("c is at its rate limit until ") and text.endswith(": slow down")
    book.change_control(parks={})
    book.back_at["c"] = 4e9
    assert waiting(book) == ("rate", "c was at its rate limit: orders come back one by one")
    book.back_at.clear()
    assert waiting(book) == ("budget", "the budget of project:p: 0 tokens spent and 0 reserved of 5")
    book.change_control(budgets={"project:p": Budget(), "fleet": Budget(tokens=9)})
    assert waiting(book) == ("limit", "0 at once for agent:null")
    book.change_control(limits={"agent:other": 0})
    assert waiting(book) == ("", "")
    row.order = replace(row.order, after=("unknown",))
    assert waiting(book) == ("dependency", "after unknown, which no one knows")


def test_a_node_refuses_for_the_first_reason_that_there_is() -> None:
    book = book_with(spec("a", labels=("gpu", "big"), agent="codex", root="/r"), slots=0)
    row, view, note = book.rows["a"], book.nodes["n1"], Note(at=1.0, by="ana", what="x")
    lacks = Attempt(number=1, node="n1", placed=1.0, outcome="not_here", why="no such repository")
    row.order = replace(row.order, attempts=(lacks,))
    view.labels, view.agents, view.leaving, view.limits = (
        frozenset({"gpu"}),
        frozenset({"null"}),
        "it restarts",
        {"repo": 0},
    )
    book.change_control(drained={"n1": note}, pauses={"node:n1": note})

    def refused(now: float = book.lease) -> tuple[str, str]:
        found = refuses(book, view, row, now)
        return (found.kind, found.text) if found is not None else ("", "")

    assert refused(book.lease + 1) == ("node", "n1 was not heard for 6 s") and refused() == (
        "node",
        "n1 is drained by ana",
    )
    book.change_control(drained={"n2": note})
    assert refused() == ("paused", "n1 is paused by ana")
    book.change_control(pauses={"node:n2": note})
    assert refused() == ("node", "n1 takes nothing more: it restarts")
    view.leaving = ""
    assert refused() == ("label", "n1 has no label big")
    view.labels = frozenset({"gpu", "big"})
    assert refused() == ("agent", "n1 has no agent codex")
    view.agents = None
    assert refused() == ("node", "n1 turned it down: no such repository")
    row.order = replace(row.order, attempts=())
    assert refused() == ("limit", "n1 takes 0 at once for repo:/r")
    view.limits = {"repo": 0, "repo:/r": 1}
    assert refused() == ("slot", "all 0 slots of n1 are taken")
    view.slots = 1
    assert refused() == ("", "")
    view.at_work.add("a")
    assert refused() == ("limit", "n1 takes 1 at once for repo:/r")


def test_an_account_that_comes_back_is_used_one_by_one_and_a_later_end_of_its_park_counts() -> None:
    now = [100.0]
    book = book_with(spec("a", credential="c"), slots=5)
    book.wall = lambda: now[0]
    rate_limited(book, "c", 50.0, "slow")
    rate_limited(book, "c", 40.0, "earlier")
    assert (book.control.parks["c"].until, book.control.parks["c"].why) == (50.0, "slow")
    assert book.control.parks["c"].since == 100.0 and book.back_at == {"c": 50.0}
    assert place_all(book, 0.0) == 1 and "c" not in book.back_at, "that was long ago"
    for name in ("b", "d"):
        book.accept(spec(name, credential="c"), 0.0)
    rate_limited(book, "c", 99.0, "again")
    assert place_all(book, 0.0) == 1 and book.back_at == {"c": 102.0} and place_all(book, 0.0) == 0
    now[0] = 103.0
    assert place_all(book, 0.0) == 1


def test_the_node_with_most_room_gets_it_and_its_work_says_what_is_to_be_run() -> None:
    book = book_with(spec("a", verify="make"), spec("b"), slots=1)
    book.node("n2", 0.0).slots = 2
    assert place_all(book, 0.0) == 2 and book.rows["a"].order.node == "n2"
    (work,) = [msgspec.json.decode(each.value) for each in book.units["a"].writes if each.key == "work.n2.a"]
    assert work == {"order": "a", "attempt": 1, "agent": "null", "commands": True}
    assert book.rows["a"].order.attempts[0].number == 1 and book.rows["a"].heard == 0.0
    lonely = Book(5.0, lambda: 1.0)
    lonely.accept(spec("x"), 0.0)
    told = explain_wait(lonely, lonely.rows["x"], 0.0)
    assert told.waits is not None and told.waits.text == "there is no node: `treadle fleet node` starts one"
    assert (told.place, told.nodes, told.state) == (1, [], "queued") and place_all(lonely, 0.0) == 0
    free = book_with(spec("y"))
    being = explain_wait(free, free.rows["y"], 0.0)
    assert being.waits is not None and being.waits.text == "it is being placed"
