"""pi as an Agent. Prompts and instructions go over its input, not on its command line."""

import os.path

from treadle.drivers.agent import DrivenAgent
from treadle.drivers.pi.session import EFFORTS, PiSession, level_of
from treadle.errors import Unsupported
from treadle.session import SessionSpec
from treadle.sessions.abilities import effort_of
from treadle.wire.pi.connection import Connection

EXTENSION = os.path.join(os.path.dirname(__file__), "extension.mjs")
NAMES = {"read_file": "read", "write_file": "write", "edit_file": "edit", "multi_edit": "edit", "glob": "find"}
"""Our names for tools that pi has too."""
OFFERED = ("read", "bash", "edit", "write")
"""What it offers its model by itself."""


class PiAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> PiSession:
        argv = [*self.launch.argv, "--extension", EXTENSION, *_options(spec)]
        peer = await self.start(argv, Connection("host"), spec, env)
        session = PiSession("", self.card, spec, peer)
        await session.shake_hands()
        return session


def _options(spec: SessionSpec) -> list[str]:
    argv = ["--model", spec.model] if spec.model else []
    if effort := effort_of("pi", spec.thinking, EFFORTS):
        argv += ["--thinking", level_of(effort)]
    start = spec.start
    if start.resume is not None:
        if not start.persist:
            raise Unsupported("pi keeps a session that goes on", hint="leave out that it keeps none")
        if start.resume == "" and start.fork:
            raise Unsupported("pi can copy only a session that is named by its id", hint="--resume ID --fork-session")
        if start.resume == "":
            argv.append("--continue")
        else:
            argv += ["--fork" if start.fork else "--session", start.resume]
    elif not start.persist:
        argv.append("--no-session")
    if spec.tools.offered is not None or spec.tools.denied:
        offered = OFFERED if spec.tools.offered is None else [NAMES.get(name, name) for name in spec.tools.offered]
        denied = {NAMES.get(name, name) for name in spec.tools.denied}
        argv += ["--tools", ",".join(name for name in offered if name not in denied)]
    return argv
