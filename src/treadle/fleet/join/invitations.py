"""Codes that let another machine join, once; `fleet.up.join` is what that machine does with one.

The code names a user of the engine that may do one thing: ask to be let in. The first to ask becomes a worker with
its own credentials, which were never in the code. From then on, or when it expires, the code is worthless.
"""

import asyncio
import base64
import os
import re
import secrets
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, Denied, LocalError, TreadleError
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.io.files import read_if_there
from treadle.io.records import FileRecord
from treadle.wire.fleet.messages import EnrolAnswer

FORMAT = 2
VALID_SECONDS = 3600.0
GRACE_SECONDS = 2.0
"""How long a code's user stays after it was used, so that the answer gets through."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a code."""

    format: int = FORMAT
    id: str
    secret: str
    url: str
    ca: str = ""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A code that was given out."""

    name: str
    until: float
    may: str = "watch"
    """What people on that machine may do, besides running its node: `watch`, or `submit`."""
    used: bool = False


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    lease: float
    users: dict[str, str]


def invite(name: str, *, url: str = "", seconds: float = VALID_SECONDS, may: str = "watch") -> str:
    """A code for a machine of this name. Only where the fleet's private server is, which reads its users again.

    The one who may `submit` can make any node run anything, so a machine gets this right only on request.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid name for a node", hint="letters, digits, - and _, at most 40")
    with places.changing():
        fleet = places.load()
        if not fleet.private:
            raise LocalError(
                "this fleet uses your own NATS server, on which Treadle cannot create users",
                hint="create a user there and run `treadle fleet up --nats URL --creds FILE` on the machine",
            )
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(18)
        _keep({**_open(), id: Open(name=name, until=time.time() + seconds, may=may)})
        fleet = _set_users(fleet, {**fleet.users, f"enrol:{id}": secret})
        if server.is_up():
            server.await_user(fleet, f"enrol:{id}")
    made = Invitation(id=id, secret=secret, url=url or fleet.url, ca=_certificate(fleet.ca))
    return base64.urlsafe_b64encode(msgspec.json.encode(made)).decode().rstrip("=")


def _certificate(path: str) -> str:
    data = read_if_there(path) if path else None
    return data.decode() if data is not None else ""


def read(code: str) -> Invitation:
    try:
        data = base64.urlsafe_b64decode(code.strip() + "=" * (-len(code.strip()) % 4))
        number = msgspec.json.decode(data).get("format")
        if number != FORMAT:
            raise ConfigError(f"the invitation has format {number}", hint="use one version of treadle on both machines")
        return msgspec.json.decode(data, type=Invitation)
    except (ValueError, AttributeError, msgspec.MsgspecError):
        hint = "copy the whole code that `treadle fleet invite` printed"
        raise ConfigError("this is not an invitation code", hint=hint) from None


# The invitations that the engine's machine stores.


def _path() -> str:
    return os.path.join(places.inside(), "invitations.json")


OPEN = FileRecord(dict[str, Open])


def _open() -> dict[str, Open]:
    return OPEN.load(_path()) or {}


def _keep(invitations: dict[str, Open]) -> None:
    OPEN.save(_path(), invitations)


def _set_users(fleet: places.Fleet, users: dict[str, str]) -> places.Fleet:
    fleet = replace(fleet, users=users)
    places.save(fleet)
    server.configure(fleet)
    server.reload()
    return fleet


def enrol(id: str) -> Credentials:
    """Exchange a code, once, for the worker's credentials."""
    with places.changing():
        found = _open().get(id)
        if found is None or found.used or found.until < time.time():
            raise Denied("this code was already used or has expired", hint="`treadle fleet invite` makes another")
        fleet = places.load()
        role = f"worker:{found.name}"
        _keep({**_open(), id: replace(found, used=True)})
        fleet = _set_users(fleet, {**fleet.users, role: secrets.token_urlsafe(24)})
        server.await_user(fleet, role)
        users = {each: fleet.users[each] for each in (role, found.may)}
    return Credentials(name=found.name, lease=fleet.lease, users=users)


def forget_codes() -> None:
    """Remove the users of codes that were used or have expired."""
    with places.changing():
        past = {id for id, found in _open().items() if found.used or found.until < time.time()}
        fleet = places.load()
        if past:
            _keep({id: found for id, found in _open().items() if id not in past})
            _set_users(fleet, {role: word for role, word in fleet.users.items() if role[6:] not in past})


def remove(name: str) -> bool:
    """Remove a worker's credentials: its connections are closed, and it can do nothing more."""
    with places.changing():
        fleet = places.load()
        left = {role: word for role, word in fleet.users.items() if role != f"worker:{name}"}
        if len(left) != len(fleet.users):
            _set_users(fleet, left)
    return len(left) != len(fleet.users)


async def serve(bus: Bus) -> Any:
    """Let in machines that come with a code; runs on the node that keeps the engine."""

    async def let_in(subject: str, data: bytes) -> bytes | None:
        try:
            given = await asyncio.to_thread(enrol, subject.rpartition(".")[2])
        except TreadleError as error:
            return encode(EnrolAnswer(error=str(error)))
        asyncio.get_running_loop().call_later(GRACE_SECONDS, _forget_soon)
        return encode(EnrolAnswer(name=given.name, lease=given.lease, users=given.users))

    return await bus.serve("fleet.enrol.*", let_in)


def _forget_soon() -> None:
    asyncio.get_running_loop().run_in_executor(None, forget_codes)
