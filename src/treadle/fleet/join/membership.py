"""This machine made a worker of another's fleet, with a code that was made there, and kept one by systemd."""

import asyncio
import contextlib
import os
import time

from treadle.errors import Denied, LocalError, NotFound
from treadle.fleet import keeper, node, up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.places import shown
from treadle.fleet.join.invitations import Credentials, Invitation, read
from treadle.io.files import write_atomic
from treadle.wire.fleet.messages import EnrolAnswer

# Joining with a code (`invitations`).


async def join(
    code: str,
    *,
    slots: int = 4,
    labels: tuple[str, ...] = (),
    service: bool = False,
    ca: str = "",
    patience: float = 5.0,
) -> tuple[str, str]:
    """Join the code's fleet as a worker. Returns the node's name, once the scheduler knows it, and its keeper."""
    found = read(code)
    with contextlib.suppress(NotFound):
        known = places.load()
        if known.url != found.url:
            raise LocalError(
                f"this machine belongs to the fleet at {shown(known.url)}", hint="`treadle fleet down --forget`"
            )
    if found.ca and not ca:
        ca = os.path.join(places.inside(), "ca.pem")
        write_atomic(ca, found.ca.encode())
    given = await _ask_in(found, ca, patience)
    fleet = places.Fleet(url=found.url, private=False, lease=given.lease, ca=ca, users=given.users)
    places.save(fleet)
    bus = await server.await_ready(fleet, fleet.widest(), seconds=10)
    try:
        role = f"worker:{given.name}"
        settings = node.NodeSettings(name=given.name, slots=slots, labels=labels, role=role, schedule=False)
        if service := service and await asyncio.to_thread(keeper.systemd_available):
            await asyncio.to_thread(_start_by_systemd, settings)
        else:
            up.start_node(settings)
        await up.await_scheduler(bus, given.name)
        if not service:
            up.keep_node(given.name)
    finally:
        await bus.close()
    return given.name, UNIT.format(given.name) if service else "the keeper"


UNIT = "treadle-node-{}.service"


def _start_by_systemd(settings: node.NodeSettings) -> None:
    node.save_settings(settings)
    keeper.write_unit(UNIT.format(settings.name), keeper.node_unit(settings.name))
    keeper.enable_unit(UNIT.format(settings.name), now=True)


async def _ask_in(found: Invitation, ca: str, patience: float) -> Credentials:
    role = f"enrol:{found.id}"
    asking = places.Fleet(url=found.url, private=False, ca=ca, users={role: found.secret})
    deadline = time.monotonic() + patience
    while True:
        bus = await _reached(asking, role, patience)
        try:
            answer = await bus.ask(f"fleet.enrol.{found.id}", EnrolAnswer, timeout=10.0)
            break
        except Unreachable:  # also happens for a moment while the engine reads its new users
            if time.monotonic() > deadline:
                hint = "`treadle fleet up` on the machine that made the code"
                text = f"the engine at {shown(found.url)} is up, and no one there lets machines in"
                raise Unreachable(text, hint=hint) from None
        finally:
            await bus.close()
        await asyncio.sleep(0.2)
    if answer.error:
        raise Denied(answer.error)
    return Credentials(name=answer.name, lease=answer.lease, users=answer.users)


async def _reached(asking: places.Fleet, role: str, patience: float) -> Bus:
    """Wait for the engine: it may become reachable only now, for example over a tunnel that is being made."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await Bus.connect(asking.address(role), name="treadle fleet join", lasting=False)
        except Denied:
            hint = "`treadle fleet invite` makes another"
            raise Denied("this code was already used or has expired", hint=hint) from None
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
