"""Any program that speaks the sidecar wire as a Session. Every turn is one order, given to a fresh process.

A sidecar has no memory of earlier orders and need not survive one, so nothing is lost by that. It reports what it did
only afterwards, so a forbidden tool cannot be stopped in advance: the rules are sent with the order, and a visible
violation cancels the run.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import uuid
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from treadle.drivers.card import Card, Launch
from treadle.drivers.confined import enclosure, is_sealed, started, watched
from treadle.drivers.sidecar.peer import ENVIRONMENT, SidecarPeer, Timing
from treadle.errors import Denied, PeerFatal, TreadleError
from treadle.events import Event, Failed, Message, TextDelta, ToolStarted, TurnEnded, Usage, Warned
from treadle.io.paths import DISK, here
from treadle.io.process.programs import command_words
from treadle.policy.environment import reduced
from treadle.policy.guess import access_of
from treadle.policy.rules import Profile, parse_rule
from treadle.session import Access, AgentInfo, Rules, SessionSpec
from treadle.sessions.session import BaseSession, Turn, new_id
from treadle.wire.sidecar.connection import (
    ContextPacket,
    PolicyProfile,
    Requirements,
    RuntimeConfig,
    SidecarHello,
    WorkOrder,
    WorkspaceSpec,
)
from treadle.wire.sidecar.events import SidecarIncoming

# A turn of ours as a work order: the prompt, and the part of our rules that the contract's policy can express.

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
    allowed = {rule.tool for rule in map(parse_rule, spec.rules.allow) if rule.pattern is None}
    approval = [name for name in approval if name.lower() not in allowed]
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


def inexpressible(spec: SessionSpec) -> list[str]:
    """The allow rules that the contract cannot express: it allows a tool or holds it back, whatever it is used for."""
    policy = policy_of(spec)
    held_back = {name.lower() for name in (*policy.require_approval_for, *policy.disallowed_tools)}
    return [text for text in spec.rules.allow if (rule := parse_rule(text)).pattern and rule.tool in held_back]


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


_ABILITIES = {"streaming": "streaming", "tool_use": "tools", "extended_thinking": "thinking", "mcp_client": "mcp"}


class SidecarAgent:
    def __init__(
        self,
        command: str | Sequence[str],
        *,
        timing: Timing | None = None,
        writes: Sequence[str] = (),
        hosts: Sequence[str] = (),
    ) -> None:
        self._writes = writes
        self._hosts = hosts
        self._argv = command_words(command) if isinstance(command, str) else list(command)
        self._timing = timing or Timing()

    @property
    def name(self) -> str:
        return f"sidecar:{shlex.join(self._argv)}"

    async def probe(self) -> AgentInfo:
        peer = await self.start(here(), {})
        async with peer:
            return agent_info(self.name, await peer.await_hello())

    async def open(self, spec: SessionSpec) -> SidecarSession:
        peer = await self.start(spec.cwd, spec.env, spec)
        try:
            hello = await peer.await_hello()
        except BaseException:
            await peer.close()
            raise
        return SidecarSession(self, spec, peer, agent_info(self.name, hello))

    async def start(self, cwd: str, env: dict[str, str], spec: SessionSpec | None = None) -> SidecarPeer:
        """Start a fresh process, which has yet to say hello; with `spec`, confined if that asks for it."""
        whole = reduced(os.environ, ENVIRONMENT, providers=True)
        whole.pop("TREADLE_AGENT", None)  # meant for us: a sidecar that inherits it would start another, without end
        whole |= env
        made = enclosure(spec, self.name, self._argv, whole, self._writes, self._hosts) if spec is not None else None
        start = partial(SidecarPeer.spawn, self._argv, env=whole, cwd=cwd, name=self.name, timing=self._timing)
        return await started(made, start)


def launched(card: Card, launch: Launch) -> SidecarAgent:
    """Called by `agents.py`."""
    return SidecarAgent(launch.argv, writes=launch.writes, hosts=launch.hosts)


def agent_info(name: str, hello: SidecarHello) -> AgentInfo:
    return AgentInfo(
        name=name,
        version=hello.backend.backend_version or "",
        tools=tuple(key.removeprefix("tool_") for key in hello.capabilities if key.startswith("tool_")),
        capabilities={
            "interrupt": "native",
            **{
                ours: level if isinstance(level, str) else "emulated"
                for key, level in hello.capabilities.items()
                if (ours := _ABILITIES.get(key)) is not None
            },
        },
    )


class SidecarSession(BaseSession):
    def __init__(self, agent: SidecarAgent, spec: SessionSpec, peer: SidecarPeer, info: AgentInfo) -> None:
        super().__init__(spec.start.id or new_id("session"), replace(info, sealed=is_sealed(peer)))
        self._agent = agent
        self._spec = spec
        self._peer: SidecarPeer | None = peer
        self._guard = Profile(spec.cwd, spec.rules, spec.mode, spec.add_dirs, spec.guards.judge, disk=DISK)
        for rule in inexpressible(spec):
            problem = f"a sidecar cannot be told that {rule} is allowed: in the mode {spec.mode} it is denied there"
            self.emit(Warned(message=f"{problem}; allow the whole tool, or use another mode", code="not_enforced"))

    async def _turn(self, turn: Turn) -> TurnEnded:
        peer = await self._ready()
        async with watched(peer, self.emit, self):
            return await self._whole_turn(peer, turn)

    async def _whole_turn(self, peer: SidecarPeer, turn: Turn) -> TurnEnded:
        work = asyncio.create_task(self._converse(peer, turn), name=f"sidecar run of {turn.id}")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await self._wind_up(peer, work, turn.interrupted or str(turn.exceeded or "cancelled"))
            raise
        finally:
            await peer.close()

    async def _ready(self) -> SidecarPeer:
        peer, self._peer = self._peer, None
        if peer is not None and peer.child.exit_code is None:
            return peer
        if peer is not None:
            await peer.close()
        peer = await self._agent.start(self._spec.cwd, self._spec.env, self._spec)
        try:
            await peer.await_hello()
        except BaseException:
            await peer.close()
            raise
        return peer

    async def _wind_up(self, peer: SidecarPeer, work: asyncio.Task[TurnEnded], reason: str) -> None:
        """Let the sidecar stop in its own way, within its grace period; what it says meanwhile still counts."""
        await peer.cancel(reason)
        await asyncio.gather(work, return_exceptions=True)

    async def _converse(self, peer: SidecarPeer, turn: Turn) -> TurnEnded:
        order = work_order(self._spec, turn.prompt.text)
        incoming = SidecarIncoming(access_of)
        denied: TreadleError | None = None
        usage_reported = failed = False
        try:
            async for events in peer.run(order, str(uuid.uuid4())):
                for made in [made for event in events for made in incoming.translate(event)]:
                    self._note(turn, made)
                    usage_reported = usage_reported or isinstance(made, Usage)
                    failed = failed or isinstance(made, Failed)
                    if denied is None and (denied := self._forbidden(made)) is not None:
                        await peer.cancel(str(denied))
                await self.room()
        except TreadleError:
            if denied is None:
                raise
        for note in peer.notes:
            self.emit(Warned(message=str(note), code="tolerated"))
        if denied is not None:
            raise denied
        return self._finished(peer, turn, usage_reported=usage_reported, failed=failed)

    def _note(self, turn: Turn, event: Event) -> None:
        if isinstance(event, Message):
            turn.text = event.text
            turn.iterations += 1
        elif isinstance(event, TextDelta):
            turn.text += event.text
        self.emit(event)

    def _forbidden(self, event: Event) -> Denied | None:
        if not isinstance(event, ToolStarted):
            return None
        paths = tuple(DISK.real(os.path.join(self._spec.cwd, path)) for path in event.paths if "\0" not in path)
        access = Access(tool=event.name, kind=event.kind, paths=paths, command=event.command, args=event.args)
        decision = self._guard(access)
        return Denied(decision.reason) if decision.verdict == "deny" else None

    def _finished(self, peer: SidecarPeer, turn: Turn, *, usage_reported: bool, failed: bool) -> TurnEnded:
        assert peer.final is not None
        receipt = peer.final.receipt
        used = receipt.usage
        if not usage_reported and (used.input_tokens is not None or used.output_tokens is not None):
            counted = Usage(
                input_tokens=used.input_tokens or 0,
                output_tokens=used.output_tokens or 0,
                cache_read_tokens=used.cache_read_tokens or 0,
                cache_write_tokens=used.cache_write_tokens or 0,
                cost_usd=used.estimated_cost_usd,
            )
            self.emit(counted)
        if receipt.outcome == "failed":
            raise PeerFatal("the sidecar reports that the run failed" + ("; see its errors above" if failed else ""))
        if receipt.outcome == "partial":
            self.emit(Warned(message="the sidecar reports that its work is incomplete", code="partial"))
        return turn.ending("completed", stop_reason=receipt.outcome)

    async def _close(self) -> None:
        if self._peer is not None:
            await self._peer.close()
