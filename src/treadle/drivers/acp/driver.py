"""Any program that speaks the Agent Client Protocol as an Agent."""

from __future__ import annotations

import shlex

from treadle.drivers.acp.session import AcpSession
from treadle.drivers.agent import DrivenAgent
from treadle.errors import Unsupported
from treadle.session import AgentInfo, SessionSpec
from treadle.wire.acp.connection import Connection


class AcpAgent(DrivenAgent):
    @property
    def name(self) -> str:
        return f"{self.card.name}:{shlex.join(self.launch.argv)}" if self.card.prefix else self.card.name

    async def probe(self) -> AgentInfo:
        if self.card.prefix:  # nobody knows how to ask such a program for its version
            return AgentInfo(name=self.name, capabilities=dict(self.card.capabilities))
        return await super().probe()

    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> AcpSession:
        self._check(spec)
        peer = await self.start(self.launch.argv, Connection("client"), spec, env)
        session = AcpSession(self.card, spec, peer, name=self.name)
        try:
            await session.shake_hands()
        except BaseException:
            await session.close()
            raise
        return session

    def _check(self, spec: SessionSpec) -> None:
        """A limit that can never be reached is no limit."""
        can, limits = self.card.capabilities, spec.limits
        hint = "limit the seconds instead"
        if limits.max_cost_usd is not None and can.get("cost") == "unsupported":
            raise Unsupported(f"{self.name} does not tell what it costs, so a cost limit cannot be kept", hint=hint)
        if limits.max_tokens is not None and can.get("usage") == "unsupported":
            raise Unsupported(f"{self.name} does not count tokens, so a token limit cannot be kept", hint=hint)
