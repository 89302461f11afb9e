"""Which agent a process belongs to, from the session ids that agents put into the environment and from its ancestors.

The innermost agent decides: an agent started by another one has the outer one's variables too.
"""

import os
from collections.abc import Iterator, Mapping

from treadle.io.process import lifetime, table

SESSION_VARIABLES = {
    "TREADLE_SESSION": "",
    "CLAUDE_CODE_SESSION_ID": "claude",
    "CODEX_THREAD_ID": "codex",
    "QWEN_CODE_SESSION_ID": "qwen",
    "COPILOT_AGENT_SESSION_ID": "copilot",
    "GEMINI_SESSION_ID": "gemini",
}
"""Variable -> the program whose session it names; `TREADLE_SESSION` says both, as in `opencode:ses_1`."""
CLIENTS = {
    "claude": "claude-code",
    "codex": "codex-mcp-client",
    "gemini": "gemini-cli-mcp-client",
    "qwen": "qwen-cli-mcp-client",
    "copilot": "copilot-cli",
}
"""Program -> the name of its MCP client, so that both lead to the same identity."""
_PIDS = {"CLAUDE_PID": "claude", "OPENCODE_PID": "opencode"}
_SHELLS = {"sh", "bash", "dash", "zsh", "ash", "busybox"}
_DEPTH = 64

PROCESS_VARIABLE = "HEIMDALL_PROCESS"
"""The process that `HEIMDALL_HAID` belongs to, by its pid and its start time."""

Key = tuple[int, int]
"""A process, by its pid and its start time."""


def client_name(program: str) -> str:
    return CLIENTS.get(program, program)


def known_client(name: str) -> str:
    """The name as in `CLIENTS`: Qwen Code appends the server's name to its own."""
    return CLIENTS["qwen"] if name.startswith(f"{CLIENTS['qwen']}-") else name


def session_keys(environ: Mapping[str, str]) -> list[str]:
    """The sessions that the environment names, as `claude:ID`."""
    found = []
    for variable, program in SESSION_VARIABLES.items():
        if value := environ.get(variable):
            found.append(f"{program}:{value}" if program else value)
    return found


def declared_process(environ: Mapping[str, str], program: str) -> Key | None:
    """The agent's process, as its environment names it."""
    for variable, whose in _PIDS.items():
        value = environ.get(variable, "")
        if whose == program and value.isdecimal() and len(value) < 10:
            return key_of(int(value))
    return None


def this_process() -> dict[str, str]:
    """A variable for what we start, so that it knows whose it is even if it cannot see our process."""
    mine = key_of(os.getpid())
    return {PROCESS_VARIABLE: f"{mine[0]}:{mine[1]}"} if mine else {}


def given_process(environ: Mapping[str, str]) -> Key | None:
    pid, _, start = environ.get(PROCESS_VARIABLE, "").partition(":")
    plain = pid.isdecimal() and start.isdecimal() and len(pid) < 10 and len(start) < 20
    return (int(pid), int(start)) if plain else None


def key_of(pid: int) -> Key | None:
    found = table.look(pid)
    return (found.pid, found.start) if found else None


def ancestors() -> Iterator[Key]:
    """Our parent, its parent and so on, as far as they are visible."""
    pid = lifetime.parent()
    for _ in range(_DEPTH):
        found = table.look(pid) if pid > 1 else None
        if found is None:
            return
        yield found.pid, found.start
        pid = found.parent


def starter() -> Key | None:
    """The program that started us, skipping a shell that only ran this one command."""
    for key in ancestors():
        found = table.look(key[0])
        words = table.command_line(key[0])
        if found is not None and found.name in _SHELLS and "-c" in words[1:3]:
            continue
        return key
    return None
