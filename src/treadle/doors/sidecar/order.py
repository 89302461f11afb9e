"""Translates between work orders and our sessions: what an order asks for, and what an agent offers."""

import os
import re
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from treadle.errors import ConfigError
from treadle.io.disk import DISK
from treadle.policy.lists import ListPolicy, Lists
from treadle.session import AgentInfo, Confinement, Guards, Limits, Rules, SessionSpec
from treadle.wire.sidecar.connection import PolicyProfile, WorkOrder
from treadle.wire.sidecar.receipts import BackendIdentity, Capability, Manifest

_TOOLS: dict[str, Capability] = {
    "read": "tool_read",
    "write": "tool_write",
    "edit": "tool_edit",
    "bash": "tool_bash",
    "shell": "tool_bash",
    "glob": "tool_glob",
    "grep": "tool_grep",
    "websearch": "tool_web_search",
    "webfetch": "tool_web_fetch",
}
_ABILITIES: dict[str, Capability] = {
    "streaming": "streaming",
    "thinking": "extended_thinking",
    "tools": "tool_use",
    "hooks": "hooks_pre_tool_use",
    "mcp": "mcp_client",
}


def identity(info: AgentInfo) -> BackendIdentity:
    from treadle import __version__

    return BackendIdentity(id=f"treadle:{info.name}", backend_version=info.version or None, adapter_version=__version__)


def manifest(info: AgentInfo) -> Manifest:
    """What the agent offers, in the contract's names. What it does not say is not claimed."""
    found: Manifest = {}
    for ability, capability in _ABILITIES.items():
        if ability in info.capabilities:
            found[capability] = info.capabilities[ability]
    for tool in info.tools:
        name = re.sub(r"[_-]|file", "", tool.lower())
        if name in _TOOLS:
            found[_TOOLS[name]] = "native"
    if found.get("tool_bash") == "native":
        found["code_execution"] = "native"
    if info.capabilities or info.tools:
        found["system_message"] = "native"
    return found


def session_spec(order: WorkOrder) -> SessionSpec:
    """Raises ConfigError when the order asks for something impossible."""
    root = os.path.abspath(order.workspace.root)
    if not os.path.isdir(root):
        raise ConfigError(f"the workspace {root} is not a directory")
    config = order.config
    return SessionSpec(
        cwd=root,
        model=config.model,
        env=config.env,
        rules=rules_of(order.policy),
        mode=None,  # the order's policy decides
        confinement=Confinement(use="possible"),
        guards=Guards(judge=ListPolicy(Lists(**to_builtins(order.policy)), root, DISK)),
        limits=Limits(max_iterations=config.max_turns, max_cost_usd=config.max_budget_usd),
        extra=vendor(order),
    )


def rules_of(policy: PolicyProfile) -> Rules:
    """The part of the policy that permission rules can express, for agents that are only given rules."""
    return Rules(
        deny=(
            *(name for name in policy.disallowed_tools if "*" not in name or name.startswith("mcp__")),
            *(f"Read({pattern})" for pattern in policy.deny_read),
            *(f"Write({pattern})" for pattern in policy.deny_write),
            *(f"WebFetch({host})" for host in policy.deny_network),
        ),
        ask=tuple(name for name in policy.require_approval_for if "*" not in name or name.startswith("mcp__")),
    )


def not_enforceable(order: WorkOrder, info: AgentInfo) -> list[str]:
    """The rules of the order that this agent cannot be held to before it acts, each with the name of its list."""
    if info.capabilities.get("guards") == "native":
        return []
    policy = order.policy
    return [f"{name} {item}" for name in PolicyProfile.__struct_fields__ for item in getattr(policy, name)]


def best_effort(order: WorkOrder) -> bool:
    """Whether even an agent that cannot be held to the policy may carry out the order."""
    return _abp(order, "best_effort_policy") is True


def vendor(order: WorkOrder) -> dict[str, Any]:
    """`config.vendor` without what is addressed to the backplane itself."""
    return {name: value for name, value in order.config.vendor.items() if name.partition(".")[0] != "abp"}


def _abp(order: WorkOrder, name: str) -> Any:
    """A setting of the backplane, which may be written nested or with a dot."""
    nested = order.config.vendor.get("abp")
    if isinstance(nested, Mapping) and name in nested:
        return nested[name]
    return order.config.vendor.get(f"abp.{name}")


def passthrough(order: WorkOrder) -> bool:
    return bool(_abp(order, "mode") == "passthrough")


def prompt_of(order: WorkOrder) -> str:
    """The task with its context. A passthrough request replaces the task."""
    parts = [_request_text(_abp(order, "request")) if passthrough(order) else order.task]
    if parts == [""]:
        parts = [order.task]
    if order.context.files:
        parts.append("Files to look at first:\n" + "\n".join(f"- {path}" for path in order.context.files))
    parts += [f"{snippet.name}:\n\n{snippet.content}" for snippet in order.context.snippets]
    if order.lane == "patch_first":
        parts.append("Your changes are taken as one patch: change only what the task needs, and do not commit.")
    return "\n\n".join(parts)


def _request_text(request: Any) -> str:
    """What a person says in a vendor's request: its prompt, its input, or the last message of the user."""
    if not isinstance(request, Mapping):
        return request if isinstance(request, str) else ""
    for name in ("prompt", "input"):
        if isinstance(request.get(name), str):
            return str(request[name])
    messages = request.get("messages")
    users = [each for each in messages if _is_user(each)] if isinstance(messages, list) else []
    content = users[-1].get("content") if users else ""
    if isinstance(content, list):
        content = "\n".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
    return content if isinstance(content, str) else ""


def _is_user(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "user"
