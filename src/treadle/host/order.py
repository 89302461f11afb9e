"""Work orders and policies as people write them: flags, and files in JSON or TOML."""

import os
import tomllib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from treadle.errors import ConfigError
from treadle.host.supervise import policy_of
from treadle.io.reading import read
from treadle.wire.sidecar.connection import (
    NO_POLICY,
    ContextPacket,
    Lane,
    MinSupport,
    PolicyProfile,
    Requirement,
    Requirements,
    RuntimeConfig,
    WorkOrder,
    WorkspaceSpec,
)
from treadle.wire.sidecar.receipts import CAPABILITIES
from treadle.wire.sidecar.repair import Deviation, convert

TASK_MAX = 100_000


def make_order(
    task: str,
    root: str,
    *,
    lane: Lane = "patch_first",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    context: Sequence[str] = (),
    policy: PolicyProfile = NO_POLICY,
    require: Sequence[str] = (),
    model: str | None = None,
    env: Mapping[str, str] | None = None,
    vendor: Mapping[str, Any] | None = None,
    max_turns: int | None = None,
    max_budget_usd: float | None = None,
) -> WorkOrder:
    if not task.strip() or len(task) > TASK_MAX:
        raise ConfigError(f"a task has from 1 to {TASK_MAX} characters, this one has {len(task)}")
    return WorkOrder(
        id=str(uuid.uuid4()),
        task=task,
        lane=lane,
        workspace=WorkspaceSpec(
            root=os.path.abspath(root), mode="staged", include=list(include), exclude=list(exclude)
        ),
        context=ContextPacket(files=list(context), snippets=[]),
        policy=policy,
        requirements=Requirements(required=[parse_requirement(text) for text in require]),
        config=RuntimeConfig(
            model=model,
            vendor=dict(vendor or {}),
            env=dict(env or {}),
            max_turns=max_turns,
            max_budget_usd=max_budget_usd,
        ),
    )


def parse_requirement(text: str) -> Requirement:
    """`streaming`, `tool_bash=native`."""
    name, _, level = text.partition("=")
    for capability in CAPABILITIES:
        if capability == name.strip().replace("-", "_"):
            break
    else:
        raise ConfigError(f"there is no capability {name!r}", hint=f"they are {', '.join(CAPABILITIES)}")
    for support in get_args(MinSupport):
        if support == (level.strip() or "any"):
            return Requirement(capability=capability, min_support=support)
    raise ConfigError(f"{level!r} is not a level of support", hint=f"one of {', '.join(get_args(MinSupport))}")


def read_policy(path: str) -> PolicyProfile:
    """Read a policy file; missing lists are empty. An unknown name is an error: a misspelt rule would otherwise
    allow what it was meant to forbid.
    """
    tree = read_tree(path)
    notes: list[Deviation] = []
    try:
        policy: PolicyProfile = convert(tree, PolicyProfile, "policy", notes)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} is not a policy: {error}") from error
    for note in notes:
        if note.problem != "missing":
            raise ConfigError(f"{path}: {note}", hint=f"the lists are {', '.join(PolicyProfile.__struct_fields__)}")
    policy_of(policy, "/")
    return policy


def read_tree(path: str) -> Any:
    try:
        data = read(path)
        return tomllib.loads(data.decode()) if path.endswith(".toml") else msgspec.json.decode(data)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def merged(policies: Sequence[PolicyProfile]) -> PolicyProfile:
    """All policies combined: what any forbids is forbidden; of several allow lists, only what each of them names."""
    lists: dict[str, list[str]] = {name: [] for name in PolicyProfile.__struct_fields__}
    for policy in policies:
        for name in lists:
            lists[name] += [item for item in getattr(policy, name) if item not in lists[name]]
    for name in ("allowed_tools", "allow_network"):
        given = [set(getattr(policy, name)) for policy in policies if getattr(policy, name)]
        lists[name] = [item for item in lists[name] if all(item in one for one in given)]
        if given and not lists[name]:
            raise ConfigError(f"the policies have nothing in common in {name}, so nothing would be allowed")
    return PolicyProfile(**lists)
