"""Where a fleet keeps its files on this machine, the keys that are derived from them, and how the engine is reached.

state/fleet/
    fleet.json          which engine this machine uses, and the credentials for each role
    engine/             the private server: its settings, store, log, and the lock that it holds while it lives
    nodes/NAME/         a node: its record, its log, and the lock that it holds while it lives
    keeper/             what is started again when it is gone, and how often that was
    runs/ORDER.N/       an attempt at an order: its job, its events, its log
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from treadle.errors import MissingExtra, NotFound, StorageError
from treadle.io.files import locked, read
from treadle.io.paths import private_dir, state_dir
from treadle.io.process import table
from treadle.io.records import FileRecord

if TYPE_CHECKING:
    from nats.aio.client import Client


# The keys that agents' sessions are encrypted with before they leave their node.
#
# The machines that schedule hold the fleet's key (`fleet.json`). Each order has a key of its own, made from it, which
# the scheduler gives to the runner that has the order and to no one else: who may read the store, or runs other
# orders, can not read the session. The cipher is AES-256-GCM, of `cryptography`.

KEY_BYTES = 32
NONCE_BYTES = 12
"""The length that GCM is made for; any other is hashed first."""


def new() -> str:
    """A key for a fleet, as text for its file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def from_secret(secret: str) -> str:
    """The key of a fleet whose machines have nothing in common but what they log in with."""
    return base64.urlsafe_b64encode(_derived(secret.encode(), b"treadle sessions of a fleet")).decode()


def of_order(fleet: str, order: str) -> bytes:
    """The key of one order. From it neither the fleet's key nor another order's can be computed."""
    return _derived(base64.urlsafe_b64decode(fleet), b"treadle session of " + order.encode())


def _derived(secret: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(secret)


def seal(key: bytes, data: bytes, name: str) -> bytes:
    """Encrypt under a name: it opens under no other."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, name.encode())


def unseal(key: bytes, data: bytes, name: str) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], name.encode())
    except (InvalidTag, ValueError):
        raise StorageError(f"{name} is encrypted with another key, or was changed") from None


# How the engine is reached: its address, the client's options for it, and a try that tells what is wrong.


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine is, and as whom to connect."""

    url: str
    user: str = ""
    password: str = ""
    creds: str = ""
    """A credentials file, for servers with their own accounts."""
    ca: str = ""
    """A file with the authority that the server's certificate is checked against."""


def options(address: Address) -> dict[str, Any]:
    made: dict[str, Any] = {"servers": [part.strip() for part in address.url.split(",")]}
    if address.user:
        made |= {"user": address.user, "password": address.password}
        # Someone who may only watch must not read the answers to others.
        made["inbox_prefix"] = f"_INBOX_{address.user}"
    if address.creds:
        made["user_credentials"] = address.creds
    if address.ca or "tls://" in address.url:
        import ssl

        # Closing a TLS connection makes Python log a warning that means nothing to people.
        logging.getLogger("asyncio").addFilter(_about_eof)
        made["tls"] = ssl.create_default_context(cafile=address.ca or None)
    return made


def _about_eof(record: logging.LogRecord) -> bool:
    return "eof_received" not in record.getMessage()


def shown(url: str) -> str:
    """An address without the password that may be in it."""
    return re.sub(r"//[^/@,]*@", "//", url)


async def probed(options: dict[str, Any], patience: float) -> Exception | None:
    """Connect and disconnect. Returns what went wrong."""
    nats = library()
    probe = nats.NATS()
    heard: list[Exception] = []

    async def hear(error: Exception) -> None:
        heard.append(error)

    quiet: dict[str, Any] = {"error_cb": hear, "allow_reconnect": False, "max_reconnect_attempts": 1}
    try:
        async with asyncio.timeout(patience):
            await probe.connect(**options, **quiet, reconnect_time_wait=0.1, connect_timeout=patience)
        return None
    except (OSError, TimeoutError, nats.errors.Error) as error:
        # The last message it reported on the way says more, for example about a certificate.
        return heard[-1] if heard else error
    finally:
        await close(probe)


def hung_up(error: Exception | None) -> bool:
    """Whether someone answered and closed the connection, as the engine may while it reads its users again."""
    ended = isinstance(error, ConnectionResetError | library().errors.UnexpectedEOF)
    return ended or "empty response" in str(error)


async def close(client: Client) -> None:
    """Close a client, also one that never got far enough to close itself."""
    transport = getattr(client, "_transport", None)
    try:
        # After a failed handshake, the client waits for an end that never comes.
        async with asyncio.timeout(1.0):
            await client.close()
    except TimeoutError:
        pass
    if transport is not None:
        transport.close()


def library() -> Any:
    try:
        import nats
        import nats.errors
    except ImportError:
        raise MissingExtra("the fleet", "fleet") from None
    return nats


FORMAT = 1


class ProcessNote(msgspec.Struct, frozen=True, kw_only=True):
    """Of a process, as many of ours note themselves, whatever else they add."""

    pid: int
    start: int

    @classmethod
    def mine(cls) -> ProcessNote:
        return ProcessNote(pid=os.getpid(), start=table.start_time(os.getpid()))

    @property
    def alive(self) -> bool:
        return table.lives(self.pid, self.start)

    def signal(self, number: int) -> None:
        table.send_to(self.pid, self.start, number)


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
    """What the keys of orders' sessions are made from (AES-256-GCM, above); only machines that schedule have it."""

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


FLEET = FileRecord(Fleet, format=FORMAT, pretty=True, lock="users.lock")


def root() -> str:
    return os.path.join(state_dir(), "fleet")


def inside(*parts: str) -> str:
    """A private directory inside the fleet's, made when missing."""
    return private_dir(os.path.join(root(), *parts))


class NoFleet(NotFound):
    """This machine is in no fleet."""


def load() -> Fleet:
    if (fleet := FLEET.load(os.path.join(root(), "fleet.json"))) is None:
        raise NoFleet("this machine is in no fleet", hint="`treadle fleet up` makes one")
    return fleet


def save(fleet: Fleet) -> None:
    FLEET.save(os.path.join(inside(), "fleet.json"), fleet)


def _password(url: str) -> str:
    return urlsplit(url.partition(",")[0]).password or ""


def changing() -> locked:
    """Held by who reads this machine's file of the fleet and writes it changed."""
    return FLEET.locked(os.path.join(inside(), "fleet.json"), 30)


def session_key() -> str:
    """The fleet's key for sessions, made where a machine that schedules has none yet.

    On a server that is not ours any machine can become the scheduler: those that log in with the same file or password
    have the same key.
    """
    with changing():
        fleet = load()
        login = read(fleet.creds).decode() if fleet.creds else _password(fleet.url)
        if login and not fleet.private and not fleet.session_key:
            return from_secret(login.strip())
        if not fleet.session_key:
            fleet = replace(fleet, session_key=new())
            save(fleet)
    return fleet.session_key
