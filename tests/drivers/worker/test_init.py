from treadle.drivers.worker.driver import TOOLS, init_config, not_enforced
from treadle.session import Decision, Guards, Limits, Rules, SessionSpec
from treadle.wire.worker.messages import PermissionRules, SessionBudget


def test_a_plain_spec_asks_for_little() -> None:
    config = init_config(SessionSpec(cwd="/x", mode=None))
    assert (config.model, config.system_prompt, config.tools) == ("", "", TOOLS)
    assert config.capabilities == ("steer", "warnings", "cwd")
    assert (config.permissions, config.budget, config.approval_mode) == (None, None, None)


def test_everything_that_the_wire_can_say_is_said() -> None:
    spec = SessionSpec.of(
        cwd="/x",
        model="m",
        system_prompt="one",
        append_system_prompt="two",
        tools=("bash", "grep"),
        denied_tools=("bash",),
        rules=Rules(deny=("Write",)),
        mode="plan",
        limits=Limits(max_iterations=5, max_cost_usd=1.0),
        resume="old",
        answers=True,
    )
    config = init_config(spec)
    assert (config.system_prompt, config.tools, config.max_iterations) == ("one\n\ntwo", ("grep",), 5)
    assert config.permissions == PermissionRules(deny=("Write",)) and config.budget == SessionBudget(max_cost_usd=1.0)
    assert set(config.capabilities) == {
        *("answers", "steer", "warnings", "cwd", "approval_mode", "permissions", "budget", "resume"),
    }


def test_what_a_worker_does_not_promise_is_named() -> None:
    spec = SessionSpec.of(
        cwd="/x",
        mode="plan",
        rules=Rules(deny=("Bash",)),
        guards=Guards(judge=lambda access: Decision(verdict="allow")),
    )
    assert len(not_enforced(spec, frozenset())) == 3
    assert not_enforced(spec, frozenset({"approval_mode", "permissions"})) == ["the guard of this session"]
    assert not_enforced(SessionSpec(cwd="/x", mode=None), frozenset()) == []


def test_each_limit_and_rule_goes_where_the_wire_has_it() -> None:
    spec = SessionSpec(
        cwd="/x",
        mode="plan",
        rules=Rules(allow=("Read",), ask=("Edit",), deny=("Bash",)),
        limits=Limits(max_tokens=5, max_seconds=2.0),
    )
    config = init_config(spec)
    assert config.permissions == PermissionRules(allow=("Read",), ask=("Edit",), deny=("Bash",))
    assert config.budget == SessionBudget(max_tokens=5, max_seconds=2.0) and config.approval_mode == "plan"
    assert (config.cwd, config.resume) == ("/x", None) and "answers" not in config.capabilities
    assert not_enforced(spec, frozenset({"approval_mode"})) == ["the permission rules"]
    assert not_enforced(spec, frozenset({"permissions"})) == ["the approval mode"]
    assert init_config(SessionSpec.of(cwd="/x", tools=(), mode=None)).tools == ()
