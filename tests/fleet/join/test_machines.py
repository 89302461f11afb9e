"""Another machine over SSH: a real sshd on loopback with a state directory of its own stands for it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import need
from tests.fleet.conftest import Start, await_node, give, spec
from treadle import __version__
from treadle.errors import ConfigError, LocalError
from treadle.fleet import client
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.join import machines
from treadle.io.process import table


class Far(NamedTuple):
    url: str
    ssh: str
    home: Path


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    """A machine that one reaches over SSH, with its own state directory and this version of the program."""
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")  # where sshd is
    sshd, _, _ = need("sshd"), need("ssh"), need("ssh-keygen")
    place = tmp_path / "far"
    home = place / "state"
    home.mkdir(parents=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    shutil.copy(place / "user.pub", place / "authorized")
    port = server.free_port()
    path = os.path.dirname(sys.executable)
    config = place / "sshd.conf"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n"
        f"PidFile none\nUsePAM no\nStrictModes no\nSetEnv TREADLE_HOME={home} PATH={path}:/usr/bin:/bin\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    known = place / "known"
    known.write_text(f"[127.0.0.1]:{port} {(place / 'host.pub').read_text()}")
    ssh = f"ssh -F /dev/null -i {place}/user -o IdentitiesOnly=yes -o UserKnownHostsFile={known}"
    with subprocess.Popen([sshd, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL) as daemon:
        try:
            yield Far(f"ssh://127.0.0.1:{port}", ssh, home)
        finally:
            daemon.kill()
            for process in table.processes():
                if table.environment_has(process.pid, f"TREADLE_HOME={home}"):
                    table.send(process, signal.SIGKILL)


async def test_a_machine_is_added_over_ssh_and_does_what_asks_for_it(bus: Bus, start_node: Start, far: Far) -> None:
    await start_node("n1")
    told: list[str] = []
    port = server.free_port()
    options = {"name": "far", "labels": ("there",), "ssh": far.ssh, "port": port, "say": told.append}
    async with asyncio.timeout(60):
        while True:
            try:
                assert await asyncio.to_thread(machines.add, far.url, **options) == "far"  # type: ignore[arg-type]
                break
            except LocalError as error:  # sshd is not up yet
                assert "ssh cannot reach" in str(error)
                await asyncio.sleep(0.1)
    assert any(f"treadle {__version__} is there" in line for line in told) and any("tunnel" in line for line in told)
    await await_node(bus, "far")
    (name,) = await give(bus, spec("null:0.2:2", labels=("there",)))
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.node == "far"
    assert "worker:far" in places.load().users
    machines.remove("far")
    async with asyncio.timeout(60):
        while any(each.name == "far" and each.alive for each in await client.nodes(bus)):
            await asyncio.sleep(0.05)


def test_what_is_no_machine_or_cannot_be_reached_is_said() -> None:
    with pytest.raises(ConfigError, match="names no machine"):
        machines.Machine("https://host")
    with pytest.raises(LocalError, match="ssh cannot reach"):
        machines.Machine("ssh://127.0.0.1:1", "ssh -F /dev/null").look()


def test_a_machine_without_python_is_told_what_it_lacks() -> None:
    machine = machines.Machine("ssh://host")
    with pytest.raises(LocalError, match="has Python 3.9, and 3.11 is needed"):
        machines._bring(machine, {"python": "3.9"}, lambda text: None)
    with pytest.raises(LocalError, match="has no Python"):
        machines._bring(machine, {}, lambda text: None)
