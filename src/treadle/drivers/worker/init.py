"""What a session spec asks of a worker, in the terms of its protocol."""

from treadle.session import Rules, SessionSpec
from treadle.wire.worker.messages import InitConfig, PermissionRules, SessionBudget

TOOLS = ("read_file", "write_file", "edit_file", "glob", "grep", "bash")
"""The tools that every worker has, used when no tools are named: the wire cannot say "all"."""


def init_config(spec: SessionSpec) -> InitConfig:
    limits, rules = spec.limits, spec.rules
    budget = SessionBudget(
        max_cost_usd=limits.max_cost_usd, max_tokens=limits.max_tokens, max_seconds=limits.max_seconds
    )
    asks = {
        "answers": spec.answers,
        "steer": True,
        "cwd": True,
        "approval_mode": spec.mode is not None,
        "permissions": rules != Rules(),
        "budget": budget != SessionBudget(),
        "resume": spec.start.resume is not None,
    }
    prompts = [text for text in (spec.instructions.system, spec.instructions.append) if text]
    return InitConfig(
        model=spec.model or "",
        system_prompt="\n\n".join(prompts),
        tools=tuple(
            name
            for name in (TOOLS if spec.tools.offered is None else spec.tools.offered)
            if name not in spec.tools.denied
        ),
        max_iterations=limits.max_iterations,
        capabilities=tuple(name for name, asked in asks.items() if asked),
        approval_mode=spec.mode,
        permissions=PermissionRules(allow=rules.allow, ask=rules.ask, deny=rules.deny) if asks["permissions"] else None,
        budget=budget if asks["budget"] else None,
        cwd=spec.cwd,
        resume=spec.start.resume,
    )


def not_enforced(spec: SessionSpec, extensions: frozenset[str]) -> list[str]:
    """What was asked for and the worker has not promised. Limits are not here: we enforce those ourselves."""
    limits = {
        "the approval mode": spec.mode is not None and "approval_mode" not in extensions,
        "the permission rules": spec.rules != Rules() and "permissions" not in extensions,
        "the guard of this session": spec.guards.judge is not None,
    }
    return [limit for limit, broken in limits.items() if broken]
