"""This machine made a worker of another's fleet, with a code that was made there, and kept one by systemd."""

import asyncio
import contextlib
import os
import shutil
import sys
import time

from treadle.errors import Denied, LocalError, NotFound
from treadle.fleet import node, up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.places import shown
from treadle.fleet.join.invitations import Credentials, Invitation, read
from treadle.io.files import write_atomic
from treadle.io.paths import state_dir
from treadle.io.process.programs import run_program
from treadle.wire.fleet.messages import EnrolAnswer

# A node under the user's systemd: started with the machine and restarted when it ends, while its runners go on.

UNIT = "treadle-node-{}.service"


def available() -> bool:
    """Whether the user has a systemd that accepts units."""
    if shutil.which("systemctl") is None:
        return False
    return run_program(["systemctl", "--user", "show-environment"], timeout=20).code == 0


def unit(name: str) -> str:
    """The text of the unit. Runners outlive the node, so systemd must end only the node's own process."""
    return f"""[Unit]
Description=Treadle fleet node {name}
After=network-online.target

[Service]
Environment=TREADLE_HOME={state_dir()}
ExecStart={sys.executable} -P -m treadle.fleet.node {name}
Restart=always
RestartSec=2
KillMode=process

[Install]
WantedBy=default.target
"""


def start_node(settings: node.NodeSettings) -> str:
    """Install and start the unit. Returns its name, or nothing where the user has no systemd."""
    if not available():
        return ""
    name = UNIT.format(settings.name)
    node.save_settings(settings)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    place = os.path.join(home, "systemd", "user")
    os.makedirs(place, exist_ok=True)
    write_atomic(os.path.join(place, name), unit(settings.name).encode(), 0o644)
    for words in (["daemon-reload"], ["enable", "--now", name]):
        done = run_program(["systemctl", "--user", *words], timeout=60)
        if done.code:
            raise LocalError(f"systemctl --user {' '.join(words)} failed: {done.complaint}")
    # Without it, systemd ends the node when its user logs out. Not everybody may ask for it.
    run_program(["loginctl", "enable-linger"], timeout=20) if shutil.which("loginctl") else None
    return name


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
        unit = await asyncio.to_thread(start_node, settings) if service else ""
        if not unit:
            up.start_node(settings)
        await up.await_scheduler(bus, given.name)
    finally:
        await bus.close()
    return given.name, unit or "a process of its own"


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
            raise Denied("this code was used already or its time is up", hint=hint) from None
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
