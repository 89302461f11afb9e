"""What an order asks of a session, and what an agent is said to offer."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from treadle.doors.sidecar.order import identity, manifest, passthrough, prompt_of, rules_of, session_spec
from treadle.errors import ConfigError
from treadle.session import AgentInfo
from treadle.testing.conversations.sidecar import SAMPLE_ORDER
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
