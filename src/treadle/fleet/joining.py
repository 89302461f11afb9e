"""More machines: a code that lets one in as a worker with credentials of its own, and what the machine does with it.

The code holds those credentials: whoever has it is that worker, so hand it over as you would a password. Two machines
with the same code would be one node to the scheduler: make a code for each.
"""

from __future__ import annotations

import base64
import re
import secrets

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, NotFound
from treadle.fleet import node, places, server, up

FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    name: str
    url: str
    lease: float
    ca: str = ""
    users: dict[str, str] = {}


def invite(name: str, *, url: str = "") -> str:
    """A code for a machine of this name. Only where the fleet's private server is; its users are read again."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a node", hint="letters, digits, - and _, at most 40")
    fleet = places.load()
    if not fleet.private:
        raise LocalError(
            "this fleet's server is not ours, so we cannot make users for it",
            hint="make a user there and run `treadle fleet up --nats URL --creds FILE` on the machine",
        )
    role = f"worker:{name}"
    fleet = replace(fleet, users={**fleet.users, role: secrets.token_urlsafe(24)})
    places.save(fleet)
    server.configure(fleet)
    server.reload()
    users = {each: fleet.users[each] for each in (role, "submit")}
    made = Invitation(name=name, url=url or fleet.url, lease=fleet.lease, users=users)
    return base64.urlsafe_b64encode(msgspec.json.encode(made)).decode().rstrip("=")


def read(code: str) -> Invitation:
    try:
        data = base64.urlsafe_b64decode(code.strip() + "=" * (-len(code.strip()) % 4))
        found = msgspec.json.decode(data, type=Invitation)
    except (ValueError, msgspec.MsgspecError):
        hint = "copy the whole code that `treadle fleet invite` printed"
        raise ConfigError("this is no invitation", hint=hint) from None
    if found.format != FORMAT:
        raise ConfigError(f"the invitation has format {found.format}", hint="upgrade treadle on this machine")
    return found


async def join(code: str, *, slots: int = 4, labels: tuple[str, ...] = ()) -> str:
    """Be a worker of the fleet that the code is of; gives the node's name when the scheduler knows it."""
    found = read(code)
    try:
        known = places.load()
        if known.url != found.url:
            raise LocalError(f"this machine belongs to the fleet at {known.url}", hint="`treadle fleet down --forget`")
    except NotFound:
        pass
    fleet = places.Fleet(url=found.url, private=False, lease=found.lease, ca=found.ca, users=found.users)
    places.save(fleet)
    bus = await server.await_ready(fleet, "submit", seconds=10)
    try:
        role = f"worker:{found.name}"
        up.start_node(node.NodeSettings(name=found.name, slots=slots, labels=labels, role=role, schedule=False))
        await up.await_scheduler(bus, found.name)
    finally:
        await bus.close()
    return found.name
