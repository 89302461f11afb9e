"""Codex as an Agent: each session has its own app-server; sessions share only Codex's home directory."""

from treadle.drivers.agent import DrivenAgent
from treadle.drivers.codex.exec import ExecSession
from treadle.drivers.codex.session import CodexSession
from treadle.errors import PeerExited
from treadle.io.paths import here
from treadle.session import SessionSpec, StoredSession
from treadle.wire.codex.connection import Connection


class CodexAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> CodexSession | ExecSession:
        peer = await self.start(list(self.launch.argv), Connection("host"), spec, env)
        session = CodexSession(self.card, spec, peer, self.launch.options)
        try:
            await session.shake_hands()
        except PeerExited as error:
            if "app-server" not in error.stderr_tail:
                raise
            return ExecSession(self.card, spec, self.launch, env, self.patience)
        return session

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        """The threads that it lists, requested from a separate process."""
        spec = SessionSpec(cwd=cwd or here())
        peer = await self.start(list(self.launch.argv), Connection("host"), spec, self.env({}))
        session = CodexSession(self.card, spec, peer, self.launch.options)
        try:
            await session.greet()
            return await session.stored_sessions(cwd)
        finally:
            await session.close()
