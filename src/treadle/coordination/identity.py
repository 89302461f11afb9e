"""HAIDs (identities: which agent, of which person, on which machine, in which checkout), the registry of those seen,
and which agent a process belongs to.

    haid:{human}.{machine}-{hash4}[/{role}]

The first part, the root, is the same for everything that works in one checkout; agents in it differ by their role.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from treadle.coordination import repository
from treadle.coordination.planning import Document, Planning, digest, seconds_of
from treadle.errors import ConfigError, Denied, NotFound
from treadle.io.process import table
from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.io.files import locked


# Which agent a process belongs to, from the session ids that agents put into the environment and from its ancestors.
#
# The innermost agent decides: an agent started by another one has the outer one's variables too.

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
"""Ancestors that are looked at."""

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
    pid = os.getppid()
    for _ in range(_DEPTH):
        found = table.look(pid) if pid > 1 else None
        if found is None:
            return
        yield found.pid, found.start
        pid = found.parent


def is_orphan() -> bool:
    """Whether it cannot be seen who started us: no one is above the leader of our session, as after a double fork."""
    line = [os.getpid(), *(pid for pid, _ in ancestors())]
    first, leader = table.look(line[-1]), os.getsid(0)
    entered = first is not None and first.parent == 0  # from outside of this container
    return leader != 1 and leader not in (line if entered else line[:-1])


def starter() -> Key | None:
    """The program that started us, skipping a shell that only ran this one command."""
    for key in ancestors():
        found = table.look(key[0])
        words = table.command_line(key[0])
        if found is not None and found.name in _SHELLS and "-c" in words[1:3]:
            continue
        return key
    return None


VERSION = "1.0.0"
STALE_SECONDS = 1800
"""Seconds without a sign of life after which an identity is listed as stale."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_HEX = frozenset("0123456789abcdef")


def slug(text: str) -> str:
    """Lower-case letters and digits, with one dash in place of anything else, at most 24 characters."""
    plain = "".join(char if char in _PLAIN else " " for char in text.lower())
    return "-".join(plain.split())[:24]


def is_haid(text: str) -> bool:
    body, slash, role = text.removeprefix("haid:").partition("/")
    human, dot, place = body.partition(".")
    machine, _, hash4 = place.rpartition("-")
    return (
        text.startswith("haid:")
        and bool(dot and human and machine)
        and (_PLAIN | {"-"}).issuperset(human + machine)
        and len(hash4) == 4
        and _HEX.issuperset(hash4)
        and (not slash or bool(role) and role[0] in _PLAIN and (_PLAIN | {"-"}).issuperset(role))
    )


def checked(haid: str) -> str:
    if not is_haid(haid):
        raise ConfigError(f"{haid!r} is not a HAID", hint="it looks like haid:ann.laptop-1a2b/coder")
    return haid


def root_of(haid: str) -> str:
    return haid.partition("/")[0]


def root(project: str) -> str:
    """The identity of a checkout, from its git settings and the machine's name."""
    # Imported late: it costs more than all the rest, and most commands do not ask who acts.
    from treadle.workspace.user_repository import UserRepository

    found = repository.find(project)
    top = found.top if found else os.path.abspath(project)
    # Agents' shells pass different settings to git; a person must be the same in all of them.
    git, common = (found.git, found.common) if found else (os.devnull, top)  # with none, only the person's settings
    asked = UserRepository(top, git, common, linked=False).run("config", "user.email", check=False)
    email = asked.stdout.decode(errors="replace").strip() if asked.code == 0 else ""
    names = (email.partition("@")[0], os.environ.get("USER", ""), os.environ.get("LOGNAME", ""))
    human = next(filter(None, map(slug, names)), "unknown")
    machine = slug(os.uname().nodename.partition(".")[0]) or "unknown"
    return f"haid:{human}.{machine}-{digest(chr(0x1F).join((human, machine, top)))[:4]}"


def current(project: str) -> str:
    """The acting identity: `HEIMDALL_HAID` if it is set, else the checkout's root identity."""
    if declared := os.environ.get("HEIMDALL_HAID"):
        return checked(declared)
    return root(project)


def spawn(project: str, role: str) -> str:
    """The identity of an agent with this role in this checkout. It is not registered."""
    name = slug(role)
    if not name:
        raise ConfigError(f"{role!r} cannot be a role", hint="use letters and digits")
    return f"{root_of(current(project))}/{name}"


def human_of(haid: str) -> str:
    return haid.removeprefix("haid:").partition(".")[0]


class Agents:
    """The registry, `ledger/agents.json`."""

    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.document = Document(planning, "ledger/agents.json", "agents", VERSION, self._lock, live=True)

    def _lock(self) -> locked:
        return self.planning.lock_beside("agents", "ledger", "agents.json.lock")

    def register(self, haid: str, role: str = "", tool: str = "", tool_version: str = "") -> None:
        """Add it, or record that it was seen again; the time of its first registration and a revocation stay."""
        now = self.planning.now()

        def edit(agents: dict[str, Any]) -> None:
            known = agents.get(haid, {})
            agents[haid] = {
                "human": human_of(haid),
                "role": role or known.get("role") or haid.partition("/")[2] or "orchestrator",
                "tool": tool or known.get("tool") or os.environ.get("HEIMDALL_TOOL", "treadle"),
                "tool_version": tool_version or known.get("tool_version", ""),
                "first_seen": known.get("first_seen", now),
                "last_heartbeat": now,
                "status": "revoked" if known.get("status") == "revoked" else "active",
            }

        checked(haid)
        self.document.change(edit)
        self.planning.log("haid", "register", haid)

    def heartbeat(self, haid: str) -> None:
        self.require(haid)
        self._set(haid, last_heartbeat=self.planning.now(), status="active")
        self.planning.log("haid", "heartbeat", haid)

    def revoke(self, haid: str) -> None:
        """Refuse this identity, and every role of it, everywhere from now on."""
        self._set(haid, status="revoked")
        self.planning.log("haid", "revoke", haid)

    def reinstate(self, haid: str) -> None:
        self._set(haid, status="active", last_heartbeat=self.planning.now())
        self.planning.log("haid", "reinstate", haid)

    def get(self, haid: str) -> dict[str, Any] | None:
        entry = self.document.read().get(haid)
        return entry if isinstance(entry, dict) else None

    def all(self) -> dict[str, dict[str, Any]]:
        """All identities with their current status: revoked, stale (not seen for half an hour), or active."""
        known = {haid: entry for haid, entry in self.document.read().items() if isinstance(entry, dict)}
        return {haid: {**entry, "status": self._status(entry)} for haid, entry in known.items()}

    def revoked(self, haid: str) -> bool:
        agents = self.document.read()
        return any(
            isinstance(agents.get(name), dict) and agents[name].get("status") == "revoked"
            for name in {haid, root_of(haid)}
        )

    def require(self, haid: str) -> None:
        """Refuse a revoked identity."""
        if self.revoked(checked(haid)):
            self.planning.note("haid", "refuse", haid)
            raise Denied(f"{haid} has been revoked", hint="a person can lift it: heimdall-haid reinstate")

    def _status(self, entry: dict[str, Any]) -> str:
        if entry.get("status") == "revoked":
            return "revoked"
        seen = seconds_of(entry.get("last_heartbeat"))
        return "active" if seen is not None and self.planning.clock() - seen <= STALE_SECONDS else "stale"

    def _set(self, haid: str, **fields: str) -> None:
        def edit(agents: dict[str, Any]) -> None:
            if not isinstance(agents.get(haid), dict):
                raise NotFound(f"{haid} is not registered", hint="heimdall-haid register --haid HAID")
            agents[haid] |= fields

        self.document.change(edit)
