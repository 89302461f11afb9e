"""Claude Code as an Agent: how it is started, and what its session is told before the first prompt.

No prompt, system prompt or key is on its command line, where every user of the machine could read it: they go over its
input and its environment.
"""

import asyncio
import uuid
from typing import Any

from treadle.drivers.agent import DrivenAgent
from treadle.drivers.claude.session import EFFORTS, ClaudeSession
from treadle.drivers.claude.stored import UUID, History, stored_sessions
from treadle.drivers.claude.tools import claude_name
from treadle.errors import ConfigError
from treadle.session import SessionSpec, StoredSession
from treadle.sessions.abilities import effort_of
from treadle.wire.claude.connection import Connection

WIRE = (
    *("--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--permission-prompt-tool", "stdio", "--include-partial-messages", "--replay-user-messages"),
)


class ClaudeAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> ClaudeSession:
        session_id, which = _session_choice(spec)
        argv = [*self.launch.argv, *WIRE, *which, *_options(spec, self.launch.options)]
        history = History(self.card, env, spec.start.resume or "", spec.cwd)
        peer = await self.start(argv, Connection("host"), spec, env)
        session = ClaudeSession(session_id, self.card, spec, peer, history)
        await session.shake_hands()
        return session

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        return await asyncio.to_thread(stored_sessions, self.card, self.env({}), cwd)


def _session_choice(spec: SessionSpec) -> tuple[str, list[str]]:
    """The id of the session, as far as it is known before the first turn, and how it is chosen."""
    start = spec.start
    if start.resume is not None and not start.fork:
        return (start.resume, ["--resume", start.resume]) if start.resume else ("", ["--continue"])
    wanted = start.id or str(uuid.uuid4())
    if not UUID.fullmatch(wanted):
        raise ConfigError(f"{wanted!r} cannot be the id of a session of Claude Code", hint="give a UUID")
    if start.resume is None:
        return wanted, ["--session-id", wanted]
    old = ["--resume", start.resume] if start.resume else ["--continue"]
    return wanted, [*old, "--fork-session", "--session-id", wanted]


def _options(spec: SessionSpec, options: dict[str, Any]) -> list[str]:
    argv = ["--model", spec.model] if spec.model else []
    if effort := effort_of("claude", spec.thinking, EFFORTS):
        argv += ["--effort", effort]
    argv += ["--permission-mode", "plan" if spec.mode == "plan" else "default"]
    if spec.tools.offered is not None:
        argv += ["--tools", ",".join(map(claude_name, spec.tools.offered))]
    if spec.tools.denied:
        argv += ["--disallowedTools", ",".join(map(claude_name, spec.tools.denied))]
    for directory in spec.add_dirs:
        argv += ["--add-dir", directory]
    for directory in spec.instructions.plugins:
        argv += ["--plugin-dir", directory]
    if spec.tools.only_servers or not spec.instructions.project:
        argv.append("--strict-mcp-config")
    if not spec.start.persist:
        argv.append("--no-session-persistence")
    sources = options.get("setting_sources")
    if spec.instructions.sources is not None:
        sources = ",".join(spec.instructions.sources)
    if not spec.instructions.project:
        sources = ""
    if isinstance(sources, str):
        argv.append(f"--setting-sources={sources}")
    return argv
