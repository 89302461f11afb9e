"""What of our rules goes with an order."""

import pytest

from treadle.drivers.sidecar.order import policy_of, work_order
from treadle.session import Limits, Mode, Rules, SessionSpec


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
