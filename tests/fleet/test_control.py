"""What holds for the whole fleet."""

from treadle.fleet.control import budget_scopes, scopes
from treadle.wire.fleet.orders import Spec

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
    assert budget_scopes(SPEC) == ["fleet", "agent:claude", "project:shop"]
    assert budget_scopes(Spec(id="b", task="x")) == ["fleet", "agent:native"]
    assert budget_scopes(Spec(id="b", task="x", agent="person", project="shop")) == [], "a question reserves nothing"


def test_an_account_is_the_agent_s_unless_one_is_named() -> None:
    assert SPEC.account == "work" and Spec(id="b", task="x", agent="acp:cmd").account == "acp"
