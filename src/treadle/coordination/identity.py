"""HAIDs (identities: which agent, of which person, on which machine, in which checkout) and the registry of those seen.

    haid:{human}.{machine}-{hash4}[/{role}]

The first part, the root, is the same for everything that works in one checkout; agents in it differ by their role.
"""

from __future__ import annotations

import os

from treadle.coordination import repository
from treadle.coordination.planning import Document, Planning, seconds_of
from treadle.errors import ConfigError, Denied, NotFound
from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.io.files import locked

VERSION = "1.0.0"
STALE_SECONDS = 1800
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
    # Imported late: both cost more than all the rest, and most commands do not ask who acts.
    from hashlib import sha256

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
    digest = sha256("\x1f".join((human, machine, top)).encode(errors="surrogateescape")).hexdigest()
    return f"haid:{human}.{machine}-{digest[:4]}"


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
            raise Denied(f"{haid} is revoked and may do nothing", hint="a person can lift it: heimdall-haid reinstate")

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
