"""Work orders and policies as people write them, and the check of a running sidecar against its order's policy."""

import os
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from treadle.errors import BudgetExceeded, ConfigError, Denied, MaxIterations, TreadleError
from treadle.io.files import read
from treadle.io.paths import DISK, RememberingDisk
from treadle.policy.guess import access_of
from treadle.policy.lists import ListPolicy, Lists
from treadle.policy.rules import Disk
from treadle.session import Access, Decision
from treadle.wire.sidecar import connection, receipts
from treadle.wire.sidecar.connection import MinSupport, PolicyProfile
from treadle.wire.sidecar.receipts import CAPABILITIES
from treadle.wire.sidecar.repair import Deviation, convert
from treadle.workspace.changes import PathChange

# Checks a running sidecar against its order's policy and limits, by the events it sends.


def policy_of(profile: PolicyProfile, root: str, disk: Disk = DISK) -> ListPolicy:
    return ListPolicy(Lists(**to_builtins(profile)), root, disk)


class RunSupervisor:
    """`watch` returns why a run must be stopped, or None. A turn is what the agent says between two rounds of tools.

    `asked`: approval is asked before anything happens, so whatever happens has been approved. `confined`: commands run
    in a sandbox, so that what their text seems to write does not matter.
    """

    def __init__(self, order: connection.WorkOrder, *, asked: bool = False, confined: bool = False) -> None:
        self._asked = asked
        self._confined = confined
        self._disk = RememberingDisk()
        self._policy = policy_of(order.policy, order.workspace.root, self._disk)
        self._reads = bool(order.policy.deny_read)
        self._max_turns = order.config.max_turns
        self._max_cost = order.config.max_budget_usd
        # Without lists there is one rule, to stay in the workspace, which a sandbox keeps.
        self._rules = not confined or any(to_builtins(order.policy).values())
        self._watches = self._rules or order.config.max_turns is not None or order.config.max_budget_usd is not None
        self._between_turns = True
        self.turns = 0
        self.cost: float | None = None

    def watch(self, events: Sequence[receipts.AnyAgentEvent]) -> TreadleError | None:
        if not self._watches:
            return None
        self._disk.forget()
        telling = [event for event in events if type(event) is not receipts.AssistantDelta or event.ext is not UNSET]
        if self._between_turns and events and not telling:
            self._begin_turn()
        for event in telling:
            reason = self._judge(event) if self._rules else None
            if reason is not None:
                return Denied(reason.reason)
            self._count(event)
        return self._over()

    def denied_writes(self) -> Callable[[str], bool]:
        return self._policy.denied_writes()

    def judge(self, changes: Sequence[PathChange], hidden: Sequence[str] = ()) -> TreadleError | None:
        """Why the actual changes are not allowed, or None. The sidecar need not have reported them."""
        paths = [path for change in changes for path in (change.path, change.old_path) if path]
        for path in (paths := [*paths, *hidden]):
            denied = self._policy.denies_change(path)
            if denied is not None:
                return Denied(f"{path} was changed; {denied.reason}")
        wrong = self._policy.happened(Access(tool="a changed file", kind="write"), asked=self._asked) if paths else None
        return Denied(f"{paths[0]} was changed; {wrong.reason}") if wrong is not None else None

    def _judge(self, event: receipts.AnyAgentEvent) -> Decision | None:
        match event:
            case receipts.ToolCalled():
                access = replace(access_of(event.tool_name, event.input), confined=self._confined)
                decision = self._policy(access)
                if decision.verdict == "deny" or decision.verdict == "ask" and not self._asked:
                    return decision
                if access.kind != "other" or not self._reads:
                    return None
                # Whatever it does with a path, it can hardly do so without reading it.
                return self._policy.denied_path(replace(access, kind="read"))
            case receipts.FileWritten():
                changed = Access(tool="file_changed", kind="write", paths=(event.path,))
                return self._policy.happened(changed, asked=self._asked)
            case receipts.CommandExecuted():
                run = Access(tool="bash", kind="execute", command=event.command, confined=self._confined)
                return self._policy.happened(run, asked=self._asked)
        return None

    def _count(self, event: receipts.AnyAgentEvent) -> None:
        if isinstance(event, receipts.ToolReturned):
            self._between_turns = True
        elif self._between_turns and isinstance(
            event, receipts.AssistantSaid | receipts.AssistantDelta | receipts.ToolCalled
        ):
            self._begin_turn()
        if event.ext is not UNSET:
            self._spend(event.ext)

    def _begin_turn(self) -> None:
        self._between_turns = False
        self.turns += 1

    def _spend(self, ext: dict[str, Any]) -> None:
        """Totals so far, as some sidecars report them: in `ext.usage`, or in a usage event of their own."""
        for usage in (ext.get("usage"), ext.get("unknown_event")):
            cost = usage.get("estimated_cost_usd") if isinstance(usage, dict) else None
            if isinstance(cost, int | float) and not isinstance(cost, bool):
                self.cost = max(self.cost or 0.0, float(cost))

    def _over(self) -> TreadleError | None:
        if self._max_turns is not None and self.turns > self._max_turns:
            return MaxIterations(f"the order allows {self._max_turns} turns, and this is the next one")
        if self._max_cost is not None and self.cost is not None and self.cost > self._max_cost:
            return BudgetExceeded(f"the order allows {self._max_cost:g} USD, and {self.cost:g} USD are spent")
        return None


# Work orders and policies as people write them: flags, and files in JSON or TOML.

TASK_MAX = 100_000


def make_order(
    task: str,
    root: str,
    *,
    lane: connection.Lane = "patch_first",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    context: Sequence[str] = (),
    policy: PolicyProfile = connection.NO_POLICY,
    require: Sequence[str] = (),
    model: str | None = None,
    env: Mapping[str, str] | None = None,
    vendor: Mapping[str, Any] | None = None,
    max_turns: int | None = None,
    max_budget_usd: float | None = None,
) -> connection.WorkOrder:
    if not task.strip() or len(task) > TASK_MAX:
        raise ConfigError(f"a task has from 1 to {TASK_MAX} characters, this one has {len(task)}")
    return connection.WorkOrder(
        id=str(uuid.uuid4()),
        task=task,
        lane=lane,
        workspace=connection.WorkspaceSpec(
            root=os.path.abspath(root), mode="staged", include=list(include), exclude=list(exclude)
        ),
        context=connection.ContextPacket(files=list(context), snippets=[]),
        policy=policy,
        requirements=connection.Requirements(required=[parse_requirement(text) for text in require]),
        config=connection.RuntimeConfig(
            model=model,
            vendor=dict(vendor or {}),
            env=dict(env or {}),
            max_turns=max_turns,
            max_budget_usd=max_budget_usd,
        ),
    )


def parse_requirement(text: str) -> connection.Requirement:
    """`streaming`, `tool_bash=native`."""
    name, _, level = text.partition("=")
    for capability in CAPABILITIES:
        if capability == name.strip().replace("-", "_"):
            break
    else:
        raise ConfigError(f"there is no capability {name!r}", hint=f"they are {', '.join(CAPABILITIES)}")
    for support in get_args(MinSupport):
        if support == (level.strip() or "any"):
            return connection.Requirement(capability=capability, min_support=support)
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
