"""What holds for the whole fleet."""

from treadle.fleet.control import budget_scopes, scopes, with_entry
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Control

SPEC = Spec(id="a", task="x", agent="claude", labels=("gpu", "arm"), project="shop", credential="work")


def test_an_order_is_in_every_scope_that_a_person_may_name() -> None:
    assert scopes(SPEC) == [
        "fleet",
        "order:a",
        "agent:claude",
        "credential:work",
        "label:gpu",
        "label:arm",
        "project:shop",
    ]


def test_it_is_paid_from_the_fleet_and_its_project() -> None:
    assert budget_scopes(SPEC) == ["fleet", "project:shop"]
    assert budget_scopes(Spec(id="b", task="x")) == ["fleet"]


def test_an_account_is_the_agent_s_unless_one_is_named() -> None:
    assert SPEC.account == "work" and Spec(id="b", task="x", agent="acp:cmd").account == "acp"


def test_an_entry_is_set_and_removed_without_touching_the_rest() -> None:
    before = {"one": 1, "two": 2}
    assert with_entry(before, "two", 3) == {"one": 1, "two": 3} and before["two"] == 2
    assert with_entry(before, "two", None) == {"one": 1} and with_entry({}, "x", None) == {}
    assert Control().pauses == {}
