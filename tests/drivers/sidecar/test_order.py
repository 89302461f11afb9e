"""What of our rules goes with an order."""

import pytest

from treadle.drivers.sidecar.driver import policy_of, work_order
from treadle.session import Instructions, Limits, Mode, Rules, SessionSpec


def test_rules_become_the_lists_that_can_say_them() -> None:
    rules = Rules(
        deny=("Bash", "Read(.env)", "Write(src/**)", "WebFetch(domain:evil.com)", "Bash(rm *)"),
        ask=("Edit", "Bash(git *)"),
    )
    policy = policy_of(SessionSpec.of(cwd="/w", mode=None, rules=rules, tools=("read_file",), denied_tools=("task",)))
    assert policy.allowed_tools == ["read_file"]
    assert policy.disallowed_tools == ["task", "Bash"]
    assert (policy.deny_read, policy.deny_write, policy.deny_network) == ([".env"], ["src/**"], ["evil.com"])
    assert policy.require_approval_for == ["Edit"]


@pytest.mark.parametrize(
    ("mode", "disallowed", "approval"),
    [
        ("plan", ["Write", "Edit", "Bash"], []),
        ("suggest", [], ["Write", "Edit", "Bash"]),
        ("auto-edit", [], ["Bash"]),
        ("full-auto", [], []),
        (None, [], []),
    ],
)
def test_a_mode_holds_back_what_it_should(mode: Mode | None, disallowed: list[str], approval: list[str]) -> None:
    policy = policy_of(SessionSpec.of(cwd="/w", mode=mode))
    assert (policy.disallowed_tools, policy.require_approval_for) == (disallowed, approval)


def test_the_order_has_the_prompt_and_the_limits() -> None:
    spec = SessionSpec.of(
        cwd="/w", model="m", system_prompt="Be brief.", limits=Limits(max_iterations=3, max_cost_usd=2.0)
    )
    order = work_order(spec, "fix it")
    assert order.task == "Be brief.\n\nfix it" and order.workspace.root == "/w"
    assert (order.config.model, order.config.max_turns, order.config.max_budget_usd) == ("m", 3, 2.0)


def test_an_order_says_all_that_the_contract_has_a_place_for() -> None:
    spec = SessionSpec(
        cwd="/w",
        mode=None,
        env={"A": "b"},
        extra={"vendor": 1},
        instructions=Instructions(append="Be kind."),
        rules=Rules(ask=("Bash", "Edit(x)"), deny=("Bash(rm *)", "Edit(src/**)", "Read(.env)", "Task")),
    )
    order = work_order(spec, "fix it")
    assert order.task == "Be kind.\n\nfix it" and work_order(SessionSpec(cwd="/w"), "fix it").task == "fix it"
    assert order.config.env == {"A": "b"} and order.config.vendor == {"vendor": 1}
    policy = order.policy
    assert policy.require_approval_for == ["Bash"] and policy.disallowed_tools == ["Task"]
    assert (policy.deny_write, policy.deny_read, policy.allowed_tools) == (["src/**"], [".env"], [])
    assert work_order(spec, "x").id != order.id
