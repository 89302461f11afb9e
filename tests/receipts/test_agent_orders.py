"""What an order asks of a session, and what an agent is said to offer."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_ORDER
from treadle.errors import ConfigError
from treadle.receipts.work import (
    best_effort,
    identity,
    manifest,
    not_enforceable,
    passthrough,
    prompt_of,
    rules_of,
    session_spec,
)
from treadle.session import AgentInfo
from treadle.wire.sidecar.connection import NO_POLICY, ContextPacket, WorkOrder


def order(tmp_path: Path, **changes: Any) -> WorkOrder:
    made = replace(SAMPLE_ORDER, workspace=replace(SAMPLE_ORDER.workspace, root=str(tmp_path)))
    return replace(made, **changes)


def vendor(tmp_path: Path, **settings: Any) -> WorkOrder:
    return order(
        tmp_path,
        task="the task",
        lane="workspace_first",
        context=ContextPacket(files=[], snippets=[]),
        config=replace(SAMPLE_ORDER.config, vendor=settings),
    )


def test_the_order_becomes_a_session(tmp_path: Path) -> None:
    spec = session_spec(order(tmp_path))
    assert (spec.cwd, spec.model, spec.env) == (str(tmp_path), "m-1", {"A": "b"})
    assert (spec.limits.max_iterations, spec.limits.max_cost_usd) == (8, 1.5)
    assert spec.guards.judge is not None and not spec.answers and not spec.trusted
    with pytest.raises(ConfigError, match="not a directory"):
        session_spec(order(tmp_path / "nowhere"))
    with pytest.raises(ConfigError):
        session_spec(order(tmp_path, policy=replace(NO_POLICY, deny_read=[""])))


def test_rules_say_what_they_can_of_the_policy() -> None:
    policy = replace(
        NO_POLICY,
        disallowed_tools=["Bash", "Web*", "mcp__*__*"],
        deny_read=[".env"],
        deny_network=["evil.com"],
        require_approval_for=["Write"],
    )
    assert rules_of(policy).deny == ("Bash", "mcp__*__*", "Read(.env)", "WebFetch(evil.com)")
    assert rules_of(policy).ask == ("Write",)


def test_a_manifest_claims_only_what_the_agent_says() -> None:
    assert manifest(AgentInfo(name="x")) == {}
    info = AgentInfo(name="n", tools=("read_file", "bash", "mystery"), capabilities={"streaming": "emulated"})
    offered = manifest(info)
    assert offered["streaming"] == "emulated" and offered["tool_read"] == "native" and "tool_write" not in offered
    assert identity(info).id == "treadle:n"


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        ({}, "the task"),
        ({"abp": {"mode": "mapped", "request": {"prompt": "raw"}}}, "the task"),
        ({"abp": {"mode": "passthrough"}}, "the task"),
        ({"abp": {"mode": "passthrough", "request": {"prompt": "raw"}}}, "raw"),
        ({"abp.mode": "passthrough", "abp.request": {"input": "dotted"}}, "dotted"),
        (
            {
                "abp": {
                    "mode": "passthrough",
                    "request": {"messages": [{"role": "user", "content": [{"text": "block"}]}]},
                }
            },
            "block",
        ),
        ({"abp": {"mode": "passthrough", "request": {"messages": "nonsense"}}}, "the task"),
        ({"abp": {"mode": "passthrough", "request": "plain"}}, "plain"),
    ],
)
def test_a_request_that_is_passed_through_is_the_prompt(tmp_path: Path, settings: dict[str, Any], prompt: str) -> None:
    work = vendor(tmp_path, **settings)
    assert prompt_of(work) == prompt
    assert passthrough(work) == ("passthrough" in str(settings))


@pytest.mark.parametrize(
    ("settings", "best"),
    [
        ({}, False),
        ({"abp": {"best_effort_policy": True}}, True),
        ({"abp.best_effort_policy": True}, True),
        ({"abp": {"best_effort_policy": 1}}, False),
        ({"abp": {"best_effort_policy": False}, "abp.best_effort_policy": True}, False),
        ({"abp": {"mode": "mapped"}, "abp.best_effort_policy": True}, True),
    ],
)
def test_only_one_who_says_so_gives_up_the_policy(tmp_path: Path, settings: dict[str, Any], best: bool) -> None:
    assert best_effort(vendor(tmp_path, **settings)) is best


def test_what_is_for_the_backplane_is_not_given_to_the_agent(tmp_path: Path) -> None:
    made = vendor(tmp_path, **{"abp": {}, "abp.mode": "x", "abpx": 1, "other.abp": 2})
    assert session_spec(made).extra == {"abpx": 1, "other.abp": 2}
    assert session_spec(made).confinement.use == "possible" and session_spec(made).mode is None


def test_an_agent_with_guards_is_held_to_all_and_another_to_nothing(tmp_path: Path) -> None:
    made = order(tmp_path, policy=replace(NO_POLICY, deny_write=["a", "b"], allowed_tools=["Read"]))
    assert not_enforceable(made, AgentInfo(name="x", capabilities={"guards": "native"})) == []
    for able in ({}, {"guards": "emulated"}):
        found = not_enforceable(made, AgentInfo(name="x", capabilities=able))  # type: ignore[arg-type]
        assert found == ["allowed_tools Read", "deny_write a", "deny_write b"]


def test_a_manifest_knows_tools_by_any_of_their_names() -> None:
    offered = manifest(AgentInfo(name="n", tools=("Shell", "WebFetch", "write-file", "web_search")))
    assert {name for name, level in offered.items() if level == "native"} == {
        "tool_bash",
        "code_execution",
        "tool_web_fetch",
        "tool_write",
        "tool_web_search",
        "system_message",
    }
    assert "code_execution" not in manifest(AgentInfo(name="n", tools=("read",)))
    assert manifest(AgentInfo(name="n", capabilities={"hooks": "unsupported"}))["hooks_pre_tool_use"] == "unsupported"
    assert identity(AgentInfo(name="n")).backend_version is None


def test_a_prompt_has_its_context_and_of_a_conversation_the_last_words_of_the_user(tmp_path: Path) -> None:
    whole = prompt_of(replace(order(tmp_path), task="T"))
    assert whole.startswith("T\n\n")
    patch = replace(vendor(tmp_path), lane="patch_first", context=ContextPacket(files=["a", "b"], snippets=[]))
    first, files, last = prompt_of(patch).split("\n\n")
    assert (first, files) == ("the task", "Files to look at first:\n- a\n- b") and "do not commit" in last
    talk = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"text": "two"}, "x", {"text": "three"}]},
        {"role": "assistant", "content": "four"},
    ]
    request = {"mode": "passthrough", "request": {"messages": talk}}
    assert prompt_of(vendor(tmp_path, abp=request)) == "two\nthree"
    for odd in ({"messages": [{"role": "user", "content": 3}]}, {"messages": []}, 3, {"prompt": 3}):
        assert prompt_of(vendor(tmp_path, abp={"mode": "passthrough", "request": odd})) == "the task"


def test_rules_for_paths_that_are_written_and_tools_of_servers() -> None:
    policy = replace(NO_POLICY, deny_write=["x"], require_approval_for=["Web*", "mcp__*", "Bash"])
    assert rules_of(policy).deny == ("Write(x)",) and rules_of(policy).ask == ("mcp__*", "Bash")
