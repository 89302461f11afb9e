"""Unix sockets and FIFOs outside are not reached, whatever their names were; those made inside work. Judged by effect:
what arrived outside. With bubblewrap, with bubblewrap where the machine cannot be divided, and with Landlock."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import room, sh, shown_place
from tests.machines import path_without
from tests.safety import as_nobody
from tests.safety.sockets import TRY, Outside
from treadle.io.sandbox import landlock, methods, parted
from treadle.session import Confinement

ROOT = os.geteuid() == 0
BWRAP = shutil.which("bwrap")
USERS = ["root", "nobody"] if ROOT else ["user"]
CASES = [("divided", user, network) for user in USERS for network in ("off", "on")]
CASES += [("undivided", USERS[0], "off"), *(("landlock", user, "on") for user in USERS)]
"""Landlock does not limit the network, and a machine is made undivided for this process only."""
INSIDE = """
import multiprocessing, os, socket, sys, threading
from multiprocessing.managers import BaseManager
def served(address, kind):
    made = socket.socket(socket.AF_UNIX, kind); made.bind(address)
    if kind != socket.SOCK_DGRAM: made.listen()
    asking = socket.socket(socket.AF_UNIX, kind); asking.connect(address); asking.send(b"x")
    return made.recv(1) if kind == socket.SOCK_DGRAM else made.accept()[0].recv(1)
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for address in (f"/tmp/mine{kind}", os.path.abspath(f"mine{kind}"), f"relative{kind}", f"\\0mine{kind}"):
        assert served(address, kind) == b"x", address
os.mkfifo("own")
threading.Thread(target=lambda: open("own", "w").write("through")).start()
assert open("own").read() == "through"
if __name__ == "__main__":
    with multiprocessing.Manager() as manager: assert manager.list([1])[0] == 1
    print("all work")
"""


@pytest.fixture
def world() -> Iterator[Outside]:
    # Not below /tmp, of which a sandbox has its own: what is tried is what it does with places that it shows.
    with tempfile.TemporaryDirectory(dir=shown_place(), prefix="s-") as base:
        os.chmod(base, 0o755)
        home, workspace = Path(base, "h"), Path(base, "w")
        home.mkdir()
        workspace.mkdir()
        made = Outside(home, workspace)
        (workspace / "try.py").write_text(TRY)
        (workspace / "inside.py").write_text(INSIDE)
        (workspace / "tries.json").write_text(json.dumps(made.tries))
        yield made
        made.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Turns this machine into one that can confine in this way only."""

    def become(kind: str) -> None:
        if kind == "undivided":
            monkeypatch.setattr(parted, "MOST", 0)
        if kind == "landlock":
            if (problem := landlock.problem()) is not None:
                pytest.skip(problem)
            monkeypatch.setenv("PATH", path_without("bwrap", tmp_path / "programs"))
        methods.available.cache_clear()
        if methods.available().method is None:
            pytest.skip("nothing can be confined here")
        assert methods.available().divides == (kind == "divided")

    yield become
    monkeypatch.undo()
    methods.available.cache_clear()


async def run(world: Outside, user: str, walls: Confinement, command: str) -> str:
    if user != "nobody":
        return (await sh(walls, command, world.workspace, env=as_nobody.ENV)).text
    state = world.home.parent / "state"
    for place in (world.workspace, *world.workspace.rglob("*"), state):
        place.mkdir(exist_ok=True) if place == state else None
        os.chown(place, as_nobody.NO_ID, as_nobody.NO_ID, follow_symlinks=False)
    argv = as_nobody.argv(walls, command, world.home.parent)
    env = {**os.environ, "TREADLE_HOME": str(state), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        argv, executable=BWRAP if argv[0] == "bwrap" else None, env=env, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(("kind", "user", "network"), CASES)
async def test_no_socket_and_no_fifo_outside_is_reached(
    world: Outside, machine: Callable[[str], None], kind: str, user: str, network: str
) -> None:
    machine(kind)
    assert len(world.tries) >= 20
    walls = room(world.workspace, network=network)
    said = await run(world, user, walls, "python3 -I -S try.py tries.json")
    assert said.rstrip().endswith("end"), said
    reached = {line[4:] for line in said.splitlines() if line.startswith("GOT")} | set(world.reached())
    if kind != "divided":  # said by `treadle doctor` and in the record of a session
        reached = {name for name in reached if "FIFO" not in name}
    assert reached == set(), said


async def test_without_a_sandbox_all_of_them_are_reached(world: Outside) -> None:
    said = (await sh(None, "python3 -I -S try.py tries.json", world.workspace, env=as_nobody.ENV)).text
    assert [line for line in said.splitlines() if line.startswith("not")] == []


@pytest.mark.parametrize("user", USERS)
async def test_sockets_and_fifos_made_inside_work(world: Outside, user: str) -> None:
    if not methods.available().divides:
        pytest.skip("needs a machine that can be divided")
    said = await run(world, user, room(world.workspace, network="off"), "python3 -I inside.py")
    assert said.rstrip().endswith("all work"), said


async def test_a_granted_socket_is_reached_through_a_relay(world: Outside) -> None:
    if not methods.available().divides:
        pytest.skip("needs a machine that can be divided")
    walls = room(world.workspace, network="off", sockets=(str(world.home / "plain"), str(world.workspace / "plain")))
    said = (await sh(walls, "python3 -I -S try.py tries.json", world.workspace, env=as_nobody.ENV)).text
    granted = {"home, plain", "workspace, plain"}
    assert set(world.reached()) == granted, said


async def test_a_socket_that_a_command_left_behind_can_be_removed_by_the_next(world: Outside) -> None:
    walls = room(world.workspace)
    leave = "python3 -I -S -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"left\")'"
    if methods.available().divides:
        assert (await sh(walls, leave, world.workspace, env=as_nobody.ENV)).code == 0
        assert (await sh(walls, f"rm left && {leave}", world.workspace, env=as_nobody.ENV)).text == ""
