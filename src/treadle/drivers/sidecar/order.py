"""A turn of ours as a work order: the prompt, and the part of our rules that the contract's policy can express."""

import uuid

from treadle.policy.rules import parse_rule
from treadle.session import Rules, SessionSpec
from treadle.wire.sidecar.connection import (
    ContextPacket,
    PolicyProfile,
    Requirements,
    RuntimeConfig,
    WorkOrder,
    WorkspaceSpec,
)

_BY_MODE = {
    "plan": ("disallowed", ["Write", "Edit", "Bash"]),
    "suggest": ("approval", ["Write", "Edit", "Bash"]),
    "auto-edit": ("approval", ["Bash"]),
}
"""What a mode holds back. For a sidecar, "ask" means "deny": the protocol has no one to ask."""


def work_order(spec: SessionSpec, task: str) -> WorkOrder:
    return WorkOrder(
        id=str(uuid.uuid4()),
        task=_with_system(spec, task),
        lane="workspace_first",
        workspace=WorkspaceSpec(root=spec.cwd, mode="pass_through", include=[], exclude=[]),
        context=ContextPacket(files=[], snippets=[]),
        policy=policy_of(spec),
        requirements=Requirements(required=[]),
        config=RuntimeConfig(
            model=spec.model,
            vendor=dict(spec.extra),
            env=dict(spec.env),
            max_budget_usd=spec.limits.max_cost_usd,
            max_turns=spec.limits.max_iterations,
        ),
    )


def _with_system(spec: SessionSpec, task: str) -> str:
    system = "\n\n".join(filter(None, [spec.instructions.system, spec.instructions.append]))
    return f"{system}\n\n{task}" if system else task


def policy_of(spec: SessionSpec) -> PolicyProfile:
    disallowed = list(spec.tools.denied)
    approval: list[str] = []
    held_back = _BY_MODE.get(spec.mode or "")
    if held_back is not None:
        (disallowed if held_back[0] == "disallowed" else approval).extend(held_back[1])
    rules = _split(spec.rules)
    return PolicyProfile(
        allowed_tools=list(spec.tools.offered or ()),
        disallowed_tools=[*disallowed, *rules["tools"]],
        deny_read=rules["read"],
        deny_write=rules["write"],
        allow_network=[],
        deny_network=rules["network"],
        require_approval_for=[*approval, *(rule for rule in spec.rules.ask if "(" not in rule)],
    )


def _split(rules: Rules) -> dict[str, list[str]]:
    """Denials by what they are about. We still watch for those that the contract cannot express."""
    found: dict[str, list[str]] = {"tools": [], "read": [], "write": [], "network": []}
    for text in rules.deny:
        rule = parse_rule(text)
        if rule.pattern is None:
            found["tools"].append(text)
        elif rule.tool == "read":
            found["read"].append(rule.pattern)
        elif rule.tool in ("write", "edit"):
            found["write"].append(rule.pattern)
        elif rule.tool == "webfetch":
            found["network"].append(rule.pattern.removeprefix("domain:"))
    return found
