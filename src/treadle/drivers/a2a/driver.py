"""An A2A agent as an Agent. Nothing is started: it runs where its address says."""

from treadle.drivers.a2a.client import A2aClient, connect
from treadle.drivers.a2a.session import A2aSession
from treadle.drivers.agent import DrivenAgent
from treadle.errors import ConfigError, Unsupported
from treadle.session import SessionSpec
from treadle.sessions.session import BaseSession

TOKEN = "TREADLE_A2A_TOKEN"


class A2aAgent(DrivenAgent):
    async def open(self, spec: SessionSpec) -> BaseSession:
        if spec.confinement.use == "on":
            raise Unsupported(
                f"{self.name} runs elsewhere, so it cannot be confined from here", hint="leave out --sandbox"
            )
        return await super().open(spec)

    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> A2aSession:
        return A2aSession(self.card, spec, await self._connect(env))

    async def version(self) -> str:
        client = await self._connect(self.env({}))
        await client.close()
        return client.address.agent_version

    async def _connect(self, env: dict[str, str]) -> A2aClient:
        if len(self.launch.argv) != 1:
            raise ConfigError("an A2A agent is named by one address", hint="such as --agent a2a:https://agent.example")
        name = str(self.launch.options.get("token", TOKEN))
        return await connect(self.launch.argv[0], env.get(name, ""))
