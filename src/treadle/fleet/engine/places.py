"""Where a fleet keeps its files on this machine.

state/fleet/
    fleet.json          which engine this machine uses, and the credentials for each role
    engine/             the private server: its settings, store, log, and the lock that it holds while it lives
    nodes/NAME/         a node: its record, its log, and the lock that it holds while it lives
    runs/ORDER.N/       an attempt at an order: its job, its events, its log
"""

import os
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from treadle.errors import NotFound, StorageError
from treadle.fleet import session_keys
from treadle.fleet.engine.reaching import Address
from treadle.io.files import locked, write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read, read_if_there

FORMAT = 1


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Which fleet this machine belongs to."""

    format: int = FORMAT
    name: str = "fleet"
    url: str
    private: bool = True
    """Whether the engine is our own server on this machine."""
    lease: float = 5.0
    replicas: int = 1
    ca: str = ""
    creds: str = ""
    users: dict[str, str] = {}
    """Role, or node:NAME -> password."""
    session_key: str = ""
    """What the keys of orders' sessions are made from (`session_keys`); only machines that schedule have it."""

    @property
    def joined(self) -> bool:
        """Whether this machine only works for a fleet that another machine started."""
        return bool(self.users) and "admin" not in self.users

    def widest(self) -> str:
        """The role with the most rights for which this machine has credentials."""
        return next((role for role in ("admin", "submit", "watch") if role in self.users), "admin")

    def address(self, role: str) -> Address:
        return Address(
            url=self.url,
            user=role.replace(":", "_") if self.users.get(role) else "",
            password=self.users.get(role, ""),
            creds=self.creds,
            ca=self.ca,
        )


def root() -> str:
    return os.path.join(state_dir(), "fleet")


def inside(*parts: str) -> str:
    """A private directory inside the fleet's, made when missing."""
    return private_dir(os.path.join(root(), *parts))


def load() -> Fleet:
    path = os.path.join(root(), "fleet.json")
    data = read_if_there(path)
    if data is None:
        raise NotFound("this machine belongs to no fleet", hint="`treadle fleet up` makes one")
    try:
        number = msgspec.json.decode(data).get("format")
        if number != FORMAT:
            raise StorageError(f"{path} has format {number}, which this version does not read", hint="upgrade treadle")
        return msgspec.json.decode(data, type=Fleet)
    except (msgspec.MsgspecError, AttributeError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error


def save(fleet: Fleet) -> None:
    write_atomic(os.path.join(inside(), "fleet.json"), msgspec.json.format(msgspec.json.encode(fleet), indent=2))


def _password(url: str) -> str:
    return urlsplit(url.partition(",")[0]).password or ""


def changing() -> locked:
    """Held by who reads this machine's file of the fleet and writes it changed."""
    return locked(os.path.join(inside(), "users.lock"), 30)


def session_key() -> str:
    """The fleet's key for sessions, made where a machine that schedules has none yet.

    On a server that is not ours any machine can become the scheduler: those that log in with the same file or password
    have the same key.
    """
    with changing():
        fleet = load()
        login = read(fleet.creds).decode() if fleet.creds else _password(fleet.url)
        if login and not fleet.private and not fleet.session_key:
            return session_keys.from_secret(login.strip())
        if not fleet.session_key:
            fleet = replace(fleet, session_key=session_keys.new())
            save(fleet)
    return fleet.session_key
