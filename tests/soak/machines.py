"""Faults of whole machines: three of them, one behind a network that is cut, one with a small disk and a clock that
jumps, on a cluster of three servers that die and sleep. Needs root, `ip` and `faketime`."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests import clocks
from tests.fleet.cluster import Server
from tests.fleet.soak import LEASE, Soak
from treadle.fleet.engine import server
from treadle.fleet.engine.bus import Bus
from treadle.io.process import table

FAR = "10.88.7"


class Machines(Soak):
    """The same orders and the same demands as in the other soak; only the faults are larger."""

    def __init__(self, place: Path, *, orders: int, pause: float, seed: int) -> None:
        self.place = place
        self.count = orders
        self.pause = pause
        self.random = random.Random(seed)
        self.faults: dict[str, int] = {}
        self.ids: list[str] = []
        self.stopped: list[tuple[int, int, float]] = []
        self.struck: dict[tuple[str, int], float] = {}
        self.takeovers: list[float] = []
        self.names = ["near", "cut", "odd"]
        self.servers: list[Server] = []
        self.later: list[tuple[float, Any]] = []
        self.node_lease = 8.0
        self.started: list[subprocess.Popen[bytes]] = []

    # Setting up...

    def build(self) -> str:
        self._network(True)
        ports = [server.free_port() for _ in range(3)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        for number, port in enumerate(ports):
            made = Server(self.place, number, "")
            made.write(f'cluster {{name: "c", listen: "127.0.0.1:{port}", routes: [{routes}]}}')
            text = made.config.read_text().replace(f"127.0.0.1:{made.port}", f"0.0.0.0:{made.port}")
            made.config.write_text(text)
            made.start()
            self.servers.append(made)
        small = self.place / "odd"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", small], check=True)
        (self.place / "clock").write_text("+0")
        for name in self.names:
            self._configure(name)
        return self._url("127.0.0.1")

    def _url(self, host: str) -> str:
        return ",".join(f"nats://{host}:{each.port}" for each in self.servers)

    def _network(self, up: bool) -> None:
        subprocess.run(["ip", "netns", "del", "treadle-far"], capture_output=True)
        subprocess.run(["ip", "link", "del", "treadle-v0"], capture_output=True)
        if up:
            for words in (
                "ip netns add treadle-far",
                "ip link add treadle-v0 type veth peer name treadle-v1",
                "ip link set treadle-v1 netns treadle-far",
                f"ip addr add {FAR}.1/24 dev treadle-v0",
                "ip link set treadle-v0 up",
                f"ip -n treadle-far addr add {FAR}.2/24 dev treadle-v1",
                "ip -n treadle-far link set treadle-v1 up",
                "ip -n treadle-far link set lo up",
            ):
                subprocess.run(words.split(), check=True)

    def _configure(self, name: str) -> None:
        home = self.place / name / "fleet"
        home.mkdir(parents=True, exist_ok=True)
        url = self._url(f"{FAR}.1" if name == "cut" else "127.0.0.1")
        made = {"format": 1, "url": url, "private": False, "lease": self.node_lease, "replicas": 3}
        (home / "fleet.json").write_text(json.dumps(made))

    def start_machine(self, name: str) -> None:
        env = {**os.environ, "TREADLE_HOME": str(self.place / name)}
        argv = [sys.executable, "-P", "-c", "import sys; from treadle.cli import main; sys.exit(main())"]
        argv += ["fleet", "node", "--name", name, "--slots", "4"]
        if name == "cut":
            argv = ["ip", "netns", "exec", "treadle-far", *argv]
        if name == "odd":
            ahead = clocks.preloaded(self.place)
            assert ahead is not None
            env |= ahead | {"FAKETIME_TIMESTAMP_FILE": str(self.place / "clock"), "FAKETIME_NO_CACHE": "1"}
        log = open(self.place / f"{name}.log", "ab")
        with log:
            streams = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            self.started.append(subprocess.Popen(argv, env=env, start_new_session=True, **streams))

    def tear_down(self) -> None:
        for name in self.names:
            for pid in self._of(name):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait(60)
        for each in self.servers:
            each.end()
        subprocess.run(["umount", "-l", self.place / "odd"], capture_output=True)
        self._network(False)

    def _of(self, name: str, word: str = "") -> list[int]:
        """The processes of a machine."""
        mark = f"TREADLE_HOME={self.place / name}"
        found = [one.pid for one in table.processes() if table.environment_has(one.pid, mark)]
        return [pid for pid in found if not word or any(word in part for part in table.command_line(pid))]

    # The soak...

    async def run_on(self, bus: Bus, seconds: float) -> dict[str, Any]:
        self.bus = bus
        for name in self.names:
            self.start_machine(name)
        began = time.monotonic()
        await self._submit()
        while await self._left() and time.monotonic() - began < seconds:
            await asyncio.sleep(self.pause * self.random.uniform(0.5, 1.5))
            self._fault()
            self._mend()
        for _, undo in self.later:
            undo()
        self.later.clear()
        self._wake_all()
        async with asyncio.timeout(400):
            while await self._left():
                self._mend()
                await asyncio.sleep(0.5)
        await asyncio.sleep(self.node_lease - LEASE)
        return await self._figures(time.monotonic() - began)

    def _fault(self) -> None:
        kinds = ["runner", "runner", "stop", "machine", "server", "sleep", "cut", "disk", "clock"]
        kind = self.random.choice(kinds)
        if getattr(self, f"_kill_{kind}")():
            self.faults[kind] = self.faults.get(kind, 0) + 1

    def _runner(self) -> int:
        living = [pid for name in self.names for pid in self._of(name, "treadle.fleet.run.runner")]
        return self.random.choice(living) if living else 0

    def _kill_runner(self) -> bool:
        pid = self._runner()
        if pid:
            os.kill(pid, signal.SIGKILL)
        return bool(pid)

    def _kill_stop(self) -> bool:
        pid = self._runner()
        process = table.look(pid) if pid else None
        if process is not None:
            os.kill(pid, signal.SIGSTOP)
            self.stopped.append((pid, process.start, time.monotonic() + self.node_lease * 1.5))
        return process is not None

    def _kill_machine(self) -> bool:
        found = self._of(self.random.choice(self.names))
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return bool(found)

    def _away(self) -> bool:
        return any(undo.__name__ in ("start", "wake") for _, undo in self.later)

    def _kill_server(self) -> bool:
        if self._away():  # of three, two must stay
            return False
        one = self.random.choice(self.servers)
        one.kill()

        def start() -> None:
            one.start()

        self.later.append((time.monotonic() + 6.0, start))
        return True

    def _kill_sleep(self) -> bool:
        if self._away():
            return False
        one = self.random.choice(self.servers)
        one.pause(True)

        def wake() -> None:
            one.pause(False)

        self.later.append((time.monotonic() + 5.0, wake))
        return True

    def _kill_cut(self) -> bool:
        subprocess.run(["ip", "link", "set", "treadle-v0", "down"], check=True)

        def heal() -> None:
            subprocess.run(["ip", "link", "set", "treadle-v0", "up"], check=True)

        self.later.append((time.monotonic() + self.random.choice([2.0, 12.0]), heal))
        return True

    def _kill_disk(self) -> bool:
        waste = self.place / "odd" / "waste"
        try:
            with open(waste, "wb") as file:
                while True:
                    file.write(b"x" * 65536)
        except OSError:
            pass

        def clean() -> None:
            waste.unlink(missing_ok=True)

        self.later.append((time.monotonic() + 6.0, clean))
        return True

    def _kill_clock(self) -> bool:
        (self.place / "clock").write_text(self.random.choice(["+0", "+3600s", "-3600s", "+90s"]))
        return True

    def _mend(self) -> None:
        for due in [each for each in self.later if each[0] < time.monotonic()]:
            self.later.remove(due)
            due[1]()
        for name in self.names:
            if not self._of(name, "--slots"):
                self.start_machine(name)
        for stopped in list(self.stopped):
            if time.monotonic() > stopped[2]:
                self._wake(stopped)


def possible() -> str:
    """Why this cannot be done here; nothing when it can."""
    if os.geteuid() != 0:
        return "network namespaces and small disks need root"
    missing = [name for name in ("ip", "mount", "faketime", "cc") if shutil.which(name) is None]
    return f"there is no {missing[0]}" if missing else ""
