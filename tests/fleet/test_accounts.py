"""Money, tokens and accounts: nothing is counted twice, budgets hold, a rate limit holds everybody on the account."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.schedule.test_book import book_with
from tests.fleet.schedule.test_book import spec as plain_spec
from treadle.fleet import client, control
from treadle.fleet.engine.bus import Bus
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.placing import over_budget, place_all, reserved
from treadle.wire.fleet.messages import RunEnded
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import Budget, Order, Used


@given(
    st.lists(st.tuples(st.sampled_from(["place", "call", "end"]), st.integers(0, 5), st.integers(1, 60)), max_size=80)
)
def test_what_parallel_runs_spend_and_may_still_spend_never_passes_the_budget(
    steps: list[tuple[str, int, int]],
) -> None:
    limits = OrderLimits(tokens=50)
    book = book_with(*(plain_spec(f"o{number}", limits=limits) for number in range(6)), slots=6)
    book.change_control(budgets={"fleet": Budget(tokens=120)})
    for do, which, size in steps:
        row = book.rows.get(f"o{which}")
        if do == "place":
            place_all(book, 0.0)
        elif row is None or row.order.state == "queued":
            continue
        elif do == "end":
            book.finished(row, RunEnded(order=row.spec.id, attempt=1, outcome="done", used=row.order.counted))
        elif not control.beyond(limits, row.order.counted, call := Used(input_tokens=size)):
            book.spend(row, row.order.counted.plus(call))
        spent = book.control.budgets["fleet"].spent_tokens
        assert spent + reserved(book, "fleet")[1] <= 120
        assert spent == sum(each.order.counted.tokens for each in book.rows.values()) + sum(
            used_by_ended(book, f"o{number}") for number in range(6)
        )


def used_by_ended(book: Book, name: str) -> int:
    unit = book.units.get(name)
    return 0 if name in book.rows or unit is None or unit.row is None else unit.row.order.used.tokens


async def test_limits_that_are_changed_hold_for_what_runs(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, plain_spec("slow", agent="null:60:60"))
    await until_state(bus, name, "running")
    await client.set_fields(bus, name, limits={"seconds": 1.0}, by="ana", why="enough")
    ended = await client.wait(bus, name, 60)
    assert ended.state == "failed" and "within 1 s" in ended.why
    assert "seconds None -> 1.0" in ended.notes[0].what and ended.notes[0].by == "ana"


def test_the_next_scheduler_counts_nothing_twice() -> None:
    book = book_with(plain_spec("a"))
    place_all(book, 1.0)
    book.spend(book.rows["a"], Used(input_tokens=70, usd=0.5))
    later = Book(book.lease, time.time)
    later.control = book.control
    later.add(book.rows["a"].spec, book.rows["a"].order, 7, 1.0)
    later.spend(later.rows["a"], Used(input_tokens=90, usd=0.6))
    assert later.control.budgets["fleet"].spent_tokens == 90
    assert later.control.budgets["fleet"].spent_usd == 0.6


def test_what_runs_is_held_when_the_budget_was_lowered_below_what_is_spent() -> None:
    book = book_with(plain_spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.spend(row, Used(input_tokens=70))
    assert over_budget(book, row) == ""
    budget = book.control.budgets["fleet"]
    book.change_control(budgets={"fleet": type(budget)(tokens=50, spent_tokens=budget.spent_tokens)})
    assert "70 of 50 tokens" in over_budget(book, row)


def test_orders_without_limits_share_a_budget_instead_of_waiting_for_one() -> None:
    book = book_with(*(plain_spec(f"o{number}", project="p") for number in range(12)), slots=12)
    book.change_control(budgets={"project:p": Budget(tokens=1000)})
    assert place_all(book, 0.0) == 10, "a tenth each"
    for row in list(book.at_work())[:8]:
        book.finished(row, RunEnded(order=row.spec.id, attempt=1, outcome="done", used=Used(input_tokens=120)))
    assert book.control.budgets["project:p"].spent_tokens == 960 and place_all(book, 0.0) == 0
    for row in list(book.at_work()):
        book.finished(row, RunEnded(order=row.spec.id, attempt=1, outcome="done"))
    assert place_all(book, 0.0) == 1, "less than a share is left, and one goes on with it"


def test_what_has_no_price_is_held_where_only_money_bounds_it() -> None:
    book = book_with(plain_spec("free"), plain_spec("bounded", limits=OrderLimits(tokens=100)))
    book.change_control(budgets={"fleet": Budget(usd=10.0)})
    assert place_all(book, 0.0) == 2
    for row in book.at_work():
        book.spend(row, Used(input_tokens=50))
    held = {row.spec.id: over_budget(book, row) for row in book.at_work()}
    assert "no one knows the price" in held["free"] and held["bounded"] == ""


def test_a_limit_is_raised_by_what_was_given_at_first_and_none_stays_none() -> None:
    given, now = OrderLimits(usd=2.0, tokens=100), OrderLimits(usd=4.0, tokens=200)
    assert control.raised(now, given) == OrderLimits(usd=6.0, tokens=300)
    assert control.raised(now, OrderLimits()) == OrderLimits(usd=8.0, tokens=400)
    assert control.raised(OrderLimits(tokens=200), given) == OrderLimits(tokens=300)
    assert control.raised(OrderLimits(usd=4.0), given) == OrderLimits(usd=6.0)


@pytest.mark.parametrize(
    ("limits", "used", "call", "why"),
    [
        (OrderLimits(), Used(input_tokens=10**9, usd=1e9), Used(), ""),
        (OrderLimits(tokens=100), Used(input_tokens=99), Used(), ""),
        (OrderLimits(tokens=100), Used(input_tokens=100), Used(), "it has used 100 of 100 tokens"),
        (OrderLimits(tokens=100), Used(input_tokens=60), Used(input_tokens=40), ""),
        (
            OrderLimits(tokens=100),
            Used(input_tokens=60),
            Used(input_tokens=41),
            "it has used 60 of 100 tokens, and its last call took 41",
        ),
        (OrderLimits(usd=1.0), Used(usd=0.5), Used(usd=0.5), ""),
        (OrderLimits(usd=1.0), Used(usd=1.0), Used(), "it has used 1.0000 of 1 USD"),
        (
            OrderLimits(usd=1.0),
            Used(usd=0.75),
            Used(usd=0.5),
            "it has used 0.7500 of 1 USD, and its last call took 0.5000",
        ),
        (OrderLimits(usd=1.0), Used(), Used(), ""),
        (OrderLimits(usd=1.0, tokens=9), Used(input_tokens=1), Used(), ""),
        (
            OrderLimits(usd=1.0),
            Used(input_tokens=1),
            Used(),
            "it has a limit in money, and no one knows the price of its 1 tokens: it needs --max-tokens",
        ),
    ],
)
def test_an_order_goes_on_until_it_reaches_its_limit_or_its_next_call_would_pass_it(
    limits: OrderLimits, used: Used, call: Used, why: str
) -> None:
    assert control.beyond(limits, used, call) == why


SHARE = OrderLimits(usd=9.0, tokens=90)


@pytest.mark.parametrize(
    ("budget", "limits", "reserved_usd", "reserved_tokens", "why"),
    [
        (Budget(), OrderLimits(usd=9.0, tokens=9), 99.0, 99, ""),
        (Budget(usd=10.0, spent_usd=4.0), OrderLimits(usd=4.0), 2.0, 0, ""),
        (Budget(usd=10.0, spent_usd=4.0), OrderLimits(usd=4.5), 2.0, 0, "4.00 USD spent and 2.00 reserved of 10.00"),
        (Budget(usd=10.0, spent_usd=4.0), OrderLimits(), 5.5, 0, ""),
        (Budget(usd=10.0, spent_usd=4.0), OrderLimits(), 6.0, 0, "4.00 USD spent and 6.00 reserved of 10.00"),
        (Budget(tokens=100, spent_tokens=40), OrderLimits(tokens=40), 0.0, 20, ""),
        (
            Budget(tokens=100, spent_tokens=40),
            OrderLimits(tokens=41),
            0.0,
            20,
            "40 tokens spent and 20 reserved of 100",
        ),
        (Budget(tokens=100, spent_tokens=40), OrderLimits(), 0.0, 59, ""),
        (Budget(tokens=100, spent_tokens=40), OrderLimits(), 0.0, 60, "40 tokens spent and 60 reserved of 100"),
        (Budget(usd=10.0, spent_usd=4.0), SHARE, 5.5, 0, ""),
        (Budget(usd=10.0, spent_usd=4.0), SHARE, 6.0, 0, "4.00 USD spent and 6.00 reserved of 10.00"),
        (Budget(tokens=100, spent_tokens=40), SHARE, 0.0, 59, ""),
        (Budget(tokens=100, spent_tokens=40), SHARE, 0.0, 60, "40 tokens spent and 60 reserved of 100"),
    ],
)
def test_an_order_fits_into_a_budget_beside_what_is_reserved(
    budget: Budget, limits: OrderLimits, reserved_usd: float, reserved_tokens: int, why: str
) -> None:
    order = Order(id="a", state="queued", changed=0.0, limits=limits)
    spec = plain_spec("a", shares=limits is SHARE)
    assert control.unfit(budget, spec, order, reserved_usd, reserved_tokens) == why


def test_what_an_order_needs_is_what_is_left_of_its_limit_or_a_share_of_the_budget() -> None:
    budget, used = Budget(usd=5.0, tokens=95), Used(input_tokens=4, usd=0.25)
    assert control.needs(budget, OrderLimits(), used) == (0.25, 6)
    assert control.needs(budget, OrderLimits(usd=2.0, tokens=50), used) == (1.75, 46)
    assert control.needs(budget, OrderLimits(usd=0.1, tokens=1), used) == (0.0, 0)
    assert control.needs(Budget(), OrderLimits(), Used(input_tokens=4)) == (0.0, 0)


def test_what_is_new_is_charged_to_the_fleet_and_the_project_and_what_has_no_price_apart() -> None:
    spec, before = plain_spec("a", project="p"), Used(input_tokens=10, usd=0.5)
    assert control.charged({}, spec, before, before) is None
    assert control.charged({}, spec, before, Used(input_tokens=9, usd=0.4)) is None
    made = control.charged({"fleet": Budget(tokens=7, spent_usd=1.0)}, spec, before, Used(input_tokens=15, usd=0.75))
    assert made == {
        "fleet": Budget(tokens=7, spent_usd=1.25, spent_tokens=5),
        "project:p": Budget(spent_usd=0.25, spent_tokens=5),
    }
    assert control.charged({}, plain_spec("a"), Used(), Used(input_tokens=3)) == {
        "fleet": Budget(spent_tokens=3, unpriced_tokens=3)
    }
    assert control.charged({}, plain_spec("a"), Used(), Used(usd=0.5)) == {"fleet": Budget(spent_usd=0.5)}


def test_only_what_is_more_than_the_budget_is_overspent() -> None:
    assert control.overspent(Budget(usd=1.0, tokens=5, spent_usd=1.0, spent_tokens=5)) == ""
    assert control.overspent(Budget(usd=1.0, spent_usd=1.5, spent_tokens=5)) == "1.50 of 1.00 USD"
    assert control.overspent(Budget(tokens=5, spent_usd=1.5, spent_tokens=6)) == "6 of 5 tokens"
    assert control.overspent(Budget(spent_usd=1.5, spent_tokens=6)) == ""
