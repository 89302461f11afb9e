"""What two orders claim of each other's, which node can take what, and which work has not landed."""

from tests.fleet.schedule.test_book import spec
from treadle.fleet.schedule.book import NodeView, OpenOrder, Say, is_unlanded
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


def test_a_node_has_room_for_what_it_does_not_do_yet_and_serves_its_agents() -> None:
    node = NodeView("n", 0.0)
    node.slots, node.at_work = 3, {"x"}
    assert node.free == 2 and node.serves(spec("a", agent="codex"))
    node.agents = frozenset({"null"})
    assert node.serves(spec("a", agent="null:600:600")) and not node.serves(spec("a", agent="codex"))


def test_work_is_unlanded_while_it_has_a_commit_that_is_on_no_branch() -> None:
    assert is_unlanded(Order(id="o", changed=1.0, state="done", result={"commit": "c"}))
    assert not is_unlanded(Order(id="o", changed=1.0, state="done", result={"commit": "c", "merged": True}))
    assert not is_unlanded(Order(id="o", changed=1.0, state="done", result={}))
    assert not is_unlanded(Order(id="o", changed=1.0, state="failed", result={"commit": "c"}))
