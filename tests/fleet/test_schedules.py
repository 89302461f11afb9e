"""Repeated orders: when each is due, in which time zone, and that there are never two of a series."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.schedule.test_book import book_with, spec
from treadle.errors import ConfigError
from treadle.fleet import orders
from treadle.fleet.orders import checked
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.placing import place_all
from treadle.wire.fleet.messages import CancelOrder, RunEnded
from treadle.wire.fleet.orders import Spec

NOON = datetime(2026, 3, 27, 12, 0, tzinfo=UTC).timestamp()
FIELD = st.one_of(st.just("*"), st.lists(st.integers(0, 23), min_size=1, max_size=3, unique=True))


def wanted(field: str | list[int], value: int) -> bool:
    return field == "*" or value in field


def text(field: str | list[int]) -> str:
    return field if isinstance(field, str) else ",".join(map(str, field))


@given(minutes=FIELD, hours=FIELD, days=st.sampled_from(["*", [1, 2, 3, 4, 5], [0], [6]]), shift=st.integers(0, 10**6))
def test_the_next_time_is_the_first_minute_that_fits(
    minutes: str | list[int], hours: str | list[int], days: str | list[int], shift: int
) -> None:
    after = NOON + shift
    found = orders.next_time(f"{text(minutes)} {text(hours)} * * {text(days)}", "UTC", after)
    here = datetime.fromtimestamp(after, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    while not (wanted(minutes, here.minute) and wanted(hours, here.hour) and wanted(days, (here.weekday() + 1) % 7)):
        here += timedelta(minutes=1)
    assert found == here.timestamp() > after


def test_a_time_of_day_stays_that_of_its_zone_when_clocks_change() -> None:
    zone, at = ZoneInfo("Europe/Berlin"), NOON
    seen = []
    for _ in range(4):  # the night to Sunday, 29 March 2026, is an hour shorter there
        at = orders.next_time("30 6 * * *", "Europe/Berlin", at)
        seen.append(datetime.fromtimestamp(at, zone))
    assert [(each.day, each.hour, each.minute) for each in seen] == [(day, 6, 30) for day in (28, 29, 30, 31)]
    assert seen[0].utcoffset() != seen[1].utcoffset()


@pytest.mark.parametrize(
    "cron, zone",
    [
        ("* * * *", ""),
        ("* * * * * *", ""),
        ("61 * * * *", ""),
        ("0 0 30 2 *", ""),
        ("0 0 * * *", "Mars/Base"),
        ("0 0 * * *", "/etc"),
    ],
)
def test_what_stands_for_no_time_is_refused_when_it_is_given(cron: str, zone: str) -> None:
    with pytest.raises(ConfigError):
        checked(spec("a", cron=cron, zone=zone))


def test_a_zone_is_named_where_the_machine_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    assert orders.local_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "nowhere")
    assert orders.local_zone() == "UTC"


def followers(book: Book, name: str) -> list[Spec]:
    writes = book.units[name].writes
    return [msgspec.json.decode(write.value, type=Spec) for write in writes if write.key.startswith("spec.")]


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.booleans())
def test_the_next_of_a_series_is_there_when_the_one_before_has_ended_and_not_earlier(
    good: list[bool], by_cron: bool
) -> None:
    again = {"cron": "30 6 * * *", "zone": "Asia/Tokyo"} if by_cron else {"every": 60.0}
    book = book_with()
    current = spec("first", attempts=1, **again)
    for well in good:
        book.accept(current, 0.0)
        row = book.rows[current.id]
        due = row.order.not_before
        row.order = msgspec.structs.replace(row.order, not_before=0.0)  # its time has come
        book.nodes["n1"].heard = 0.0
        assert place_all(book, 0.0) == 1 and not followers(book, current.id)
        book.finished(row, RunEnded(order=row.spec.id, attempt=1, outcome="done" if well else "failed"))
        (follower,) = followers(book, current.id)
        assert follower.series == "first" and follower.id != current.id and len(book.rows) == 0
        assert follower.not_before >= due
        current = follower


def test_who_cancels_one_of_a_series_ends_it() -> None:
    book = book_with(spec("a", cron="0 0 * * *"))
    assert book.rows["a"].order.not_before > 0
    book.request(book.rows["a"], CancelOrder(order="a", by="ana"))
    assert not followers(book, "a")


def test_an_order_is_first_due_when_its_cron_says_unless_it_is_one_of_a_series() -> None:
    plain, daily = spec("a", not_before=7.0), spec("a", cron="0 6 * * *", zone="UTC")
    assert orders.first_due(plain, NOON) == 7.0
    six = datetime(2026, 3, 28, 6, 0, tzinfo=UTC).timestamp()
    assert orders.first_due(daily, NOON) == six
    assert orders.first_due(msgspec.structs.replace(daily, not_before=six), NOON) == six + 86400
    assert orders.first_due(msgspec.structs.replace(daily, series="a", not_before=5.0), NOON) == 5.0
    assert orders.due_again(daily, NOON - 10 * 86400, NOON) == six, "missed times are not made up for"
    often = spec("a", every=60.0)
    assert [orders.due_again(often, NOON, now) for now in (NOON + 10, NOON + 100)] == [NOON + 60, NOON + 100]


def test_a_machine_without_a_named_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert orders.local_zone() == "Asia/Tokyo"
    monkeypatch.delenv("TZ")
    assert orders.zone_of(orders.local_zone()) and orders.local_zone()
