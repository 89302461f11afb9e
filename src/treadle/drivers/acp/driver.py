"""Any program that speaks the Agent Client Protocol as an Agent."""

import os
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from treadle.agent.confining import Confining
from treadle.drivers.acp.session import AcpSession
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.servers import in_a_file
from treadle.io.disk import DISK
from treadle.io.paths import here
from treadle.policy.rules import RuleSet
from treadle.session import AgentInfo, SessionSpec, StoredSession
from treadle.wire.acp.connection import Connection


class AcpAgent(DrivenAgent):
    @property
    def name(self) -> str:
        return f"{self.card.name}:{shlex.join(self.launch.argv)}" if self.card.prefix else self.card.name

    async def probe(self) -> AgentInfo:
        if self.card.prefix:  # it is not known how to ask such a program for its version
            return AgentInfo(name=self.name, capabilities=dict(self.card.capabilities))
        return await super().probe()

    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> AcpSession:
        with in_a_file(spec, self.card.servers_file) as (spec, words):
            session = await self._started(spec, env, [*words, *self._directories(spec)])
            try:
                await session.shake_hands()
            except BaseException:
                await session.close()
                raise
            return session

    def _directories(self, spec: SessionSpec) -> list[str]:
        places = spec.add_dirs if self.card.directory else ()
        return [self.card.directory.format(path=place) for place in places]

    async def _started(self, spec: SessionSpec, env: dict[str, str], words: Sequence[str] = ()) -> AcpSession:
        peer = await self.start([*self.launch.argv, *words], Connection("client"), spec, env)
        confining = peer.enclosed
        if not isinstance(confining, Confining):
            # Commands that it runs through us are confined like those of our own agent.
            confining = Confining.of(spec, spec.add_dirs, spec.confinement, f"{self.card.name}-{os.getpid()}")
            confining.obey(RuleSet(spec.rules, DISK.real(spec.cwd), DISK), spec.mode)
            peer.enclosed = confining
        return AcpSession(self.card, spec, peer, name=self.name, confining=confining, env=env)

    @asynccontextmanager
    async def greeted(self, cwd: str | None = None) -> AsyncIterator[AcpSession]:
        """It runs and has greeted us, but has no session: to see what it says of itself, or to sign in."""
        session = await self._started(SessionSpec(cwd=cwd or here()), self.env({}))
        try:
            await session.greet()
            yield session
        finally:
            await session.close()

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        """The sessions that it lists, requested from a separate process."""
        async with self.greeted(cwd) as session:
            return await session.stored_sessions(cwd)
