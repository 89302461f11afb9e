"""Another machine over SSH: a real sshd on loopback with a state directory of its own stands for it."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.fleet.conftest import Start, await_node, give, make_fleet, spec, until_state
from treadle import __version__
from treadle.errors import ConfigError, LocalError
from treadle.fleet import client
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.join import invitations, machines
from treadle.io.process import table

pytestmark = pytest.mark.slow


class Far:
    """A machine that one reaches over SSH, with its own state directory and this version of the program."""

    def __init__(self, place: Path) -> None:
        self.home, self.port = place / "state", server.free_port()
        self.home.mkdir(parents=True)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
        shutil.copy(place / "user.pub", place / "authorized")
        path, self.config = os.path.dirname(sys.executable), place / "sshd.conf"
        self.config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n"
            "PidFile none\nUsePAM no\nStrictModes no\n"
            f"SetEnv TREADLE_HOME={self.home} PATH={path}:/usr/bin:/bin\n"
        )
        known = place / "known"
        known.write_text(f"[127.0.0.1]:{self.port} {(place / 'host.pub').read_text()}")
        self.url = f"ssh://127.0.0.1:{self.port}"
        self.ssh = f"ssh -F /dev/null -i {place}/user -o IdentitiesOnly=yes -o UserKnownHostsFile={known}"
        self.reach()

    def reach(self) -> None:
        words = [str(shutil.which("sshd")), "-D", "-e", "-f", str(self.config)]
        self.daemon = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def cut(self) -> None:
        """What works there goes on, and no one reaches it."""
        below = psutil.Process(self.daemon.pid).children(recursive=True)
        self.daemon.kill()
        self.daemon.wait()
        for process in below:
            if process.name().startswith("sshd"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    async def add(self, name: str) -> list[str]:
        """What was said about it."""
        told: list[str] = []
        options = {"name": name, "labels": ("there",), "ssh": self.ssh, "port": server.free_port(), "say": told.append}
        async with asyncio.timeout(60):
            while True:
                try:
                    assert await asyncio.to_thread(machines.add, self.url, **options) == name  # type: ignore[arg-type]
                    return told
                except LocalError as error:  # sshd is not up yet
                    assert "ssh cannot reach" in str(error)
                    await asyncio.sleep(0.1)

    def close(self) -> None:
        self.cut()
        for process in table.processes():
            if table.environment_has(process.pid, f"TREADLE_HOME={self.home}"):
                table.send(process, signal.SIGKILL)


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Far]]:
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")  # where sshd is
    for program in ("sshd", "ssh", "ssh-keygen"):
        need(program)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    with contextlib.ExitStack() as stack:

        def make(name: str) -> Far:
            made = Far(tmp_path / name)
            stack.callback(made.close)
            return made

        yield make


async def test_a_machine_is_added_over_ssh_and_does_what_asks_for_it(
    bus: Bus, start_node: Start, far: Callable[[str], Far]
) -> None:
    await start_node("n1")
    told = await far("far").add("far")
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


async def test_of_two_machines_over_ssh_the_one_that_is_cut_off_loses_its_order_to_the_other_and_doubles_nothing(
    bus: Bus, start_node: Start, far: Callable[[str], Far]
) -> None:
    await start_node("n1")
    both = {name: far(name) for name in ("one", "two")}
    for name, machine in both.items():
        await machine.add(name)
        await await_node(bus, name)
    (name,) = await give(bus, spec("null:6:6", labels=("there",)))
    order = await until_state(bus, name, "running")
    cut, other = order.node, next(each for each in both if each != order.node)
    both[cut].cut()
    ended = await client.wait(bus, name, 60)
    assert (ended.state, ended.node) == ("done", other)
    assert [(each.node, each.outcome) for each in ended.attempts] == [(cut, "lost"), (other, "done")]
    both[cut].reach()
    await await_node(bus, cut)
    (more,) = await give(bus, spec("null:0.2:2", labels=("there",)))
    assert (await client.wait(bus, more, 60)).state == "done"
    assert (await client.get_order(bus, name)).attempts == ended.attempts, (
        "what comes late from there counts for nothing"
    )


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


SSH = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLED"
cat > "$CALLED.stdin"
case "$*" in
  *"uname -n"*) printf "$SEEN";;
  *"fleet join"*) printf "$JOINED";;
esac
exit ${CODE:-0}
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands in for ssh, and notes how it was called."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    monkeypatch.setenv("SEEN", f"host far.example\nkind x\npython 3.12\ntreadle treadle {__version__}\n")
    monkeypatch.setenv("JOINED", "one\nfar has joined the fleet\n")
    return tmp_path / "called"


def test_a_machine_is_named_with_its_user_and_port() -> None:
    plain = machines.Machine("far", "ssh -v").tunnel("n", 5, 6)
    alive = ["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    ssh = ["ssh", "-v", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    assert (plain.name, list(plain.argv)) == ("n", [*ssh, *alive, "-N", "-R", "127.0.0.1:5:127.0.0.1:6", "far"])
    other = machines.Machine("ssh://ana@far:2200")
    assert other.where == "ana@far" and other.tunnel("n", 5, 6).argv[5:7] == ("-p", "2200")
    for wrong in ("https://far", "ssh://", "ssh:///x"):
        with pytest.raises(ConfigError, match="names no machine") as refused:
            machines.Machine(wrong)
        assert refused.value.hint == "treadle fleet add ssh://USER@HOST[:PORT]"


def test_what_goes_wrong_there_is_told_with_where(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machines.Machine("far", str(called.parent / "ssh"))
    assert machine.look() == {"host": "far.example", "kind": "x", "python": "3.12", "treadle": f"treadle {__version__}"}
    monkeypatch.setenv("CODE", "255")
    with pytest.raises(LocalError, match="ssh cannot reach far") as refused:
        machine.run("true")
    assert refused.value.hint == "try `ssh HOST true` by hand"
    monkeypatch.setenv("CODE", "3")
    with pytest.raises(LocalError, match="on far: exit code 3"):
        machine.run("true")


def test_a_machine_that_has_the_program_is_let_in_with_a_code_over_its_input(
    called: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, told = make_fleet(), list[str]()
    ssh = str(called.parent / "ssh")
    assert machines.add("ana@far", slots=7, labels=("gpu",), ssh=ssh, port=5000, may="submit", say=told.append) == "far"
    assert told == [
        "reached ana@far: far.example, Python 3.12",
        f"program treadle {__version__} is there",
        "tunnel  ana@far port 5000 leads to the engine here",
        "far has joined the fleet",
    ]
    last = called.read_text().split("treadle fleet join")[-1]
    assert "--service --patience=60 --slots 7 --label=gpu" in last
    code = Path(f"{called}.stdin").read_text()
    found = invitations.read(code)
    assert found.url == "nats://127.0.0.1:5000" and code.strip() not in called.read_text()
    (tunnel,) = machines.tunnels()
    assert tunnel.name == "far" and f"127.0.0.1:5000:127.0.0.1:{fleet.url.rpartition(':')[2]}" in tunnel.argv
    monkeypatch.setenv("JOINED", "")
    assert machines.add("far", name="other", ssh=ssh, say=told.append) == "other" and told[-1] == "other has joined"
    machines.add("far", name="far", ssh=ssh, port=5001)
    assert [(each.name, each.argv[-2][:14]) for each in machines.tunnels()] == [
        ("other", "127.0.0.1:4222"),
        ("far", "127.0.0.1:5001"),
    ]
    places.save(replace(places.load(), users={**places.load().users, "worker:far": "x"}))
    assert machines.remove("far") and not machines.remove("far")
    assert [each.name for each in machines.tunnels()] == ["other"] and "worker:far" not in places.load().users


def test_an_engine_that_others_reach_needs_no_tunnel(called: Path, state_home: Path) -> None:
    places.save(replace(make_fleet(), url="nats://10.0.0.1:4222"))
    machines.add("far", ssh=str(called.parent / "ssh"))
    assert (
        machines.tunnels() == [] and invitations.read(Path(f"{called}.stdin").read_text()).url == "nats://10.0.0.1:4222"
    )


@pytest.mark.long
def test_the_program_is_brought_as_an_archive_to_one_of_the_same_kind_and_else_as_a_wheel(
    called: Path,
) -> None:
    machine, given = machines.Machine("far", str(called.parent / "ssh")), Path(f"{called}.stdin")
    told: list[str] = []
    machines._bring(machine, {"python": "3.11", "kind": machines.kind()}, told.append)
    assert given.read_bytes()[:2] == b"\x1f\x8b" and told == [
        f"program installing treadle {__version__} (it had none)",
        f"program treadle {__version__} is in {machines.PLACE} there",
    ]
    machines._bring(machine, {"python": "3.12", "kind": "other", "treadle": "treadle 0.1"}, told.append)
    assert given.read_bytes()[:2] == b"PK" and "(it had treadle 0.1)" in told[2]
    for python in ("3.10", "2.7"):
        with pytest.raises(LocalError, match=f"has Python {python}, and 3.11 is needed") as refused:
            machines._bring(machine, {"python": python}, told.append)
        assert refused.value.hint == "install python3 and python3-venv there"
