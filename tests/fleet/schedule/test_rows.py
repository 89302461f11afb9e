"""What two orders claim of each other's, which node can take what, and which work has not landed."""

from tests.fleet.schedule.test_book import spec
from treadle.fleet.schedule.book import OpenOrder, Say
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


def opened(name: str, **fields: object) -> OpenOrder:
    made: Spec = spec(name, **fields)
    return OpenOrder(made, Order(id=name, state="queued", changed=1.0), 1, 0.0)


def test_orders_that_land_on_one_branch_share_what_both_claim() -> None:
    one = opened("a", claims=("src/a.py", "docs/**"), land="main", root="/r", overlap="auto")
    other = opened("b", claims=("src/**",), land="main", root="/r", overlap="auto")
    assert one.shares_claims_with(other) and one.closed_to(other) == ["docs/**"]
    assert one.escalated == (0, False), "nothing was found to be stuck yet"
    assert not Say("fleet.tell.n1.a", b"").stored


def test_without_a_common_branch_or_where_one_wants_to_wait_all_is_closed() -> None:
    one = opened("a", claims=("src/a.py",), land="main", root="/r", overlap="auto")
    for fields in (
        {"land": "", "root": "/r", "overlap": "auto"},
        {"land": "next", "root": "/r", "overlap": "auto"},
        {"land": "main", "root": "/other", "overlap": "auto"},
        {"land": "main", "root": "/r", "overlap": "wait"},
    ):
        other = opened("b", claims=("src/**",), **fields)
        assert not one.shares_claims_with(other) and one.closed_to(other) == ["src/a.py"], fields
