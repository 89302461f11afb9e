"""One order carried out by an agent in this process: its session, its events as a receipt states them, and what it
claims at the end. The host reads this directly; the door of a sidecar writes it on its wire.
"""

import os
import re
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import to_builtins

from treadle import session as sessions
from treadle.errors import ConfigError, LocalError, NotFound, PolicyNotEnforceable
from treadle.events import AnyEvent, ErrorInfo, TurnEnded, TurnStarted, Usage
from treadle.io.paths import DISK
from treadle.policy.lists import ListPolicy, Lists
from treadle.receipts.trace import Trace, backplane_setting, best_effort
from treadle.sessions.totals import ServedTurn, Totals, TurnTotals
from treadle.wire.common.losses import Row, really_lost
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import PolicyProfile, WorkOrder
from treadle.wire.sidecar.events import SidecarOutgoing, error_event

# Translates between work orders and our sessions: what an order asks for, and what an agent offers.

_TOOLS: dict[str, receipts.Capability] = {
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
_ABILITIES: dict[str, receipts.Capability] = {
    "streaming": "streaming",
    "thinking": "extended_thinking",
    "tools": "tool_use",
    "hooks": "hooks_pre_tool_use",
    "mcp": "mcp_client",
}


def identity(info: sessions.AgentInfo) -> receipts.BackendIdentity:
    from treadle import __version__

    return receipts.BackendIdentity(
        id=f"treadle:{info.name}", backend_version=info.version or None, adapter_version=__version__
    )


def manifest(info: sessions.AgentInfo) -> receipts.Manifest:
    """What the agent offers, in the contract's names. What it does not say is not claimed."""
    found: receipts.Manifest = {}
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


def session_spec(order: WorkOrder) -> sessions.SessionSpec:
    """Raises ConfigError when the order asks for something impossible."""
    root = os.path.abspath(order.workspace.root)
    if not os.path.isdir(root):
        raise ConfigError(f"the workspace {root} is not a directory")
    config = order.config
    return sessions.SessionSpec(
        cwd=root,
        model=config.model,
        env=config.env,
        rules=rules_of(order.policy),
        mode=None,  # the order's policy decides
        confinement=sessions.Confinement(use="possible"),
        guards=sessions.Guards(judge=ListPolicy(Lists(**to_builtins(order.policy)), root, DISK)),
        limits=sessions.Limits(max_iterations=config.max_turns, max_cost_usd=config.max_budget_usd),
        extra=vendor(order),
    )


def rules_of(policy: PolicyProfile) -> sessions.Rules:
    """The part of the policy that permission rules can express, for agents that are only given rules."""
    return sessions.Rules(
        deny=(
            *(name for name in policy.disallowed_tools if "*" not in name or name.startswith("mcp__")),
            *(f"Read({pattern})" for pattern in policy.deny_read),
            *(f"Write({pattern})" for pattern in policy.deny_write),
            *(f"WebFetch({host})" for host in policy.deny_network),
        ),
        ask=tuple(name for name in policy.require_approval_for if "*" not in name or name.startswith("mcp__")),
    )


def not_enforceable(order: WorkOrder, info: sessions.AgentInfo) -> list[str]:
    """The rules of the order that this agent cannot be held to before it acts, each with the name of its list."""
    if info.capabilities.get("guards") == "native":
        return []
    policy = order.policy
    return [f"{name} {item}" for name in PolicyProfile.__struct_fields__ for item in getattr(policy, name)]


def vendor(order: WorkOrder) -> dict[str, Any]:
    """`config.vendor` without what is addressed to the backplane itself."""
    return {name: value for name, value in order.config.vendor.items() if name.partition(".")[0] != "abp"}


def passthrough(order: WorkOrder) -> bool:
    return bool(backplane_setting(order, "mode") == "passthrough")


def prompt_of(order: WorkOrder) -> str:
    """The task with its context. A passthrough request replaces the task."""
    parts = [_request_text(backplane_setting(order, "request")) if passthrough(order) else order.task]
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


Adjust: TypeAlias = Callable[[sessions.SessionSpec], sessions.SessionSpec]
Sink: TypeAlias = Callable[[AnyEvent], Awaitable[None]]


class AgentWork:
    """Iterate over `events` once; then `receipt` is available. The rest may be called meanwhile, on the same loop."""

    def __init__(
        self,
        run_id: str,
        order: WorkOrder,
        agent: sessions.Agent,
        info: sessions.AgentInfo,
        *,
        adjust: Adjust | None = None,
        sink: Sink | None = None,
    ) -> None:
        """`adjust` may change how the session is opened. `sink` gets each of the session's own events before its
        translation is yielded; while it waits, the session is held back."""
        self.run_id = run_id
        self.order = order
        self.session: sessions.Session | None = None
        self.reaches: Sequence[str] | None = None
        self._agent = agent
        self._info = info
        self._adjust = adjust
        self._sink = sink
        self._served: ServedTurn | None = None
        self._next: list[str] = []
        """What to say when the turn has ended, each in a turn of its own."""
        self._turns = 0
        self._reason: str | None = None
        self._trace = Trace()
        self._totals = TurnTotals()
        self._wire: sessions.ModelWire | None = None
        self._seen: set[str] = set()
        """The kinds of events that occurred."""
        self._started = time.time()
        self._outcome: receipts.Outcome = "failed"
        self._passthrough = passthrough(order)
        self._out = SidecarOutgoing(order.workspace.root, passthrough=self._passthrough)

    async def events(self) -> AsyncGenerator[list[receipts.AnyAgentEvent], None]:
        """What happens, in batches, until the session is closed. Raises what keeps it from starting."""
        if self._reason is not None:
            self._outcome = "partial"
            return
        self._check_policy()
        spec = session_spec(self.order)
        self.session = await self._agent.open(self._adjust(spec) if self._adjust is not None else spec)
        self.reaches = self.session.info.reaches
        await self._say(prompt_of(self.order))
        last: list[receipts.AnyAgentEvent] | None = None
        if self._reason is not None:
            await self.cancel(self._reason)
        try:
            while last is None and self._served is not None and (batch := await self._served.batch()):
                made, last = await self._translated(batch)
                if made:
                    self._trace.extend(made)
                    yield made
        finally:
            if self._served is not None:
                self._served.leave()
        # Close before anybody hears that we are done: they may then kill us.
        await self.close()
        if last is None:
            raise LocalError("the agent's session was closed before its turn had ended")
        for each in (self._ended(), last):
            if each:
                self._trace.extend(each)
                yield each

    def _check_policy(self) -> None:
        rules = not_enforceable(self.order, self._info)
        if rules and not best_effort(self.order):
            raise PolicyNotEnforceable(
                f"{self._info.name} cannot be made to follow the order's policy: {'; '.join(rules[:5])}",
                hint="use an agent that asks before each act, confine it, or allow it with --best-effort-policy",
                details={"rules": rules},
            )

    async def _translated(
        self, batch: list[AnyEvent]
    ) -> tuple[list[receipts.AnyAgentEvent], list[receipts.AnyAgentEvent] | None]:
        """The batch in the contract's terms; the second part is set when the turn has ended."""
        made: list[receipts.AnyAgentEvent] = []
        for event in batch:
            if self._sink is not None:
                await self._sink(event)
            self._totals.add(event)
            self._seen.add(type(event).__name__)
            if isinstance(event, Usage) and event.source == "provider":
                self._out.spent(self._totals.summary().usage.counts())
            if isinstance(event, TurnEnded):
                if not await self._go_on():
                    return made, self._out.translate(event)
            elif not isinstance(event, TurnStarted) or not self._turns:
                made += self._out.translate(event)
        return made, None

    async def _go_on(self) -> bool:
        """Begin the next turn, if there is something to say; for the contract, all turns are one run."""
        if not self._next or self._reason is not None or self.session is None:
            return False
        self._turns += 1
        await self._say(self._next.pop(0))
        return True

    async def _say(self, text: str) -> None:
        """Begin a turn, reading on from the one before; warnings from while it was opened count too."""
        assert self.session is not None
        after = 0 if self._served is None else self._served.seen
        self._served = ServedTurn(self.session, after=after, beside=True)
        await self._served.prompt(sessions.Prompt(text=text))

    def _ended(self) -> list[receipts.AnyAgentEvent]:
        """Settle the outcome. A failed run shows an error; most agents have reported theirs already."""
        ended = self._totals.summary()
        self._outcome = "complete" if ended.outcome == "completed" else "partial"
        if ended.outcome != "failed":
            return []
        self._outcome = "failed"
        error: ErrorInfo | None = ended.error
        reported = any(isinstance(event, receipts.ErrorMet) for event in self._trace.events("1970-01-01T00:00:00Z"))
        return [error_event(error, receipts.timestamp(time.time()))] if error is not None and not reported else []

    async def cancel(self, reason: str) -> None:
        """Let it stop in its own way; `events` then ends as usual."""
        self._reason = reason
        if self._served is not None:
            await self._served.interrupt(reason)

    async def steer(self, text: str) -> bool:
        """Give the agent text at its next step. False when there is none any more."""
        return self.session is not None and self._served is not None and await self._served.steer(text)

    async def say_next(self, text: str, *, now: bool = False) -> bool:
        """Send this in a turn of its own when the running one has ended; with `now`, that one is ended for it."""
        if self.session is None or self._served is None or self._reason is not None:
            return False
        self._next.append(text)
        if now:
            await self._served.interrupt("a person has a message")
        return True

    async def answer(self, request: str, answer: sessions.Answer) -> None:
        """Answer an Asked. Raises NotFound when it is no longer open."""
        if self.session is None:
            raise NotFound("there is no session that could have asked")
        await self.session.answer(request, answer)

    async def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._wire = session.info.wire
            await session.close()

    def _lost(self) -> list[Row]:
        """What the session reported and this wire did not carry, and what the agent could not report."""
        return really_lost(self._info.losses, "sidecar", self._seen)

    def receipt(self) -> receipts.Receipt:
        """What the agent claims."""
        finished, summary = time.time(), self._totals.summary()
        usage = summary.usage
        trace = self._trace.events(receipts.timestamp(finished))
        if not any(isinstance(event, receipts.RunCompleted) for event in trace[-1:]):
            trace.append(receipts.RunCompleted(ts=receipts.timestamp(finished), message=self._reason or self._outcome))
        return receipts.sealed(
            receipts.Receipt(
                meta=receipts.ReceiptMeta(
                    run_id=as_uuid(self.run_id),
                    work_order_id=as_uuid(self.order.id),
                    contract_version=receipts.CONTRACT,
                    started_at=receipts.timestamp(self._started),
                    finished_at=receipts.timestamp(finished),
                    duration_ms=max(0, round(finished * 1000) - round(self._started * 1000)),
                ),
                backend=identity(self._info),
                capabilities=manifest(self._info),
                mode="passthrough" if self._passthrough else "mapped",
                usage_raw={
                    "lost": [msgspec.to_builtins(row) for row in self._lost()],
                    "by_model": {
                        model: {**totals.counts(), "estimated": totals.estimated}
                        for model, totals in summary.by_model.items()
                    },
                    **_model_wire(self._wire, usage),
                },
                usage=receipts.UsageTotals(**usage.counts())
                if usage.calls and not usage.estimated
                else receipts.UsageTotals(),
                trace=trace,
                artifacts=[],
                verification=receipts.Verification(harness_ok=False),
                outcome=self._outcome,
            )
        )


def as_uuid(text: str) -> str:
    """Turn an invalid id, as some hosts send, into a valid one, always the same: receipts need one."""
    try:
        return receipts.normal_uuid(text)
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def _model_wire(wire: sessions.ModelWire | None, seen: Totals) -> dict[str, Any]:
    """How the agent's model was reached. Through the gateway, the usage is what passed, beside what it says itself."""
    if wire is None:
        return {}
    facts = msgspec.to_builtins(wire)
    return {"model_wire": {**facts, "observed": seen.counts()} if wire.way == "gateway" else facts}
