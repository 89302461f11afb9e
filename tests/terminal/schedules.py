"""Random schedules: clients that connect, subscribe, stall, vanish and send halves of frames, while a child prints
numbered lines and dies at a random moment, and the supervisor itself is stopped for a while now and then. What must
hold for every subscriber that stayed to the end:

- its bytes are lines in order; where it was told of no gap, they are contiguous, to the last line;
- gaps and bytes together are exactly what was written;
- EXIT is the last frame of output, comes exactly once, and has the child's code.

Run as a program: `python -m tests.terminal.schedules FIRST COUNT DIRECTORY` prints how many schedules were violated.
"""

import os
import random
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any

from treadle.terminal import supervisor  # noqa: F401  # loaded once, shared by all that are forked
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings
from treadle.wire.terminal import frames as wire
from treadle.wire.terminal.connection import Connection

LIMIT = 60.0


class Violation(AssertionError):
    pass


class Peer:
    """A client that may do anything a client can do."""

    def __init__(self, path: str, chance: random.Random) -> None:
        self.chance = chance
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.setblocking(False)
        self.wire = Connection("client")
        self.output = b""
        self.missed = 0
        self.told_gaps = False
        self.exit: int | None = None
        self.after_exit = False
        self.subscribed = False
        self.asked = self.answered = 0
        self.stalled = False
        self.poisoned = False  # has sent half a frame or nonsense
        self.open = True
        self.greeted = False

    def act(self) -> None:
        """Do one random thing."""
        choice = self.chance.random()
        if not self.open:
            return
        if not self.greeted or self.poisoned:
            if choice < 0.1:
                self.close()
        elif choice < 0.3 and not self.subscribed:
            if self.chance.random() < 0.5:
                self.told_gaps = True
                self.say(wire.ClientHello(wire.WANT_GAPS, 0))
            self.subscribed = True
            self.say(wire.Subscribe())
        elif choice < 0.45:
            self.asked += 1
            self.say(wire.StatusQuestion())
        elif choice < 0.55:
            self.say(wire.Resize(self.chance.randrange(300), self.chance.randrange(100)))
        elif choice < 0.65:
            self.say(wire.UnknownFrame(self.chance.randrange(0x0B, 0x80), self.chance.randbytes(5)))
        elif choice < 0.75:
            self.stalled = not self.stalled
        elif choice < 0.79:
            self.poisoned = True
            data = wire.encode(wire.Input(b"hello"))
            self.send(data[: self.chance.randrange(1, len(data))])
        elif choice < 0.82:
            self.poisoned = True
            self.send(self.chance.choice([b"\x04\x00\x00\x00\x01x", b"\x01\xff\xff\xff\xff", b"\x06\0\0\0\0"]))
        elif choice < 0.88:
            self.close()

    def say(self, message: wire.Frame) -> None:
        self.send(self.wire.send(message))

    def send(self, data: bytes) -> None:
        try:
            self.sock.send(data)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            self.sock.close()

    def read(self) -> None:
        try:
            data = self.sock.recv(self.chance.choice([1, 100, 65536]))
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            if not self.poisoned and self.subscribed and self.exit is None:
                raise Violation("the connection ended before EXIT")
            self.close()
            return
        for message in self.wire.receive(data):
            self.hear(message)

    def hear(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise Violation(f"malformed from the supervisor: {message}")
        if isinstance(message, wire.Mode):
            self.greeted = True
        elif isinstance(message, wire.ProgramOutput):
            if self.exit is not None:
                raise Violation("output after EXIT")
            self.output += message.data
        elif isinstance(message, wire.Gap):
            self.missed += message.missed
        elif isinstance(message, wire.StatusReply):
            self.answered += 1
        elif isinstance(message, wire.Exit):
            if self.exit is not None:
                raise Violation("a second EXIT")
            self.exit = message.code

    @property
    def stayed(self) -> bool:
        return self.open and self.subscribed and not self.poisoned


PROGRAM = r"""
import os, sys, time
count, pause, code, how = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sys.stdin.readline()
for first in range(0, count, 50):
    os.write(1, b"".join(b"%07d\n" % n for n in range(first, min(first + 50, count))))
    if pause: time.sleep(pause)
if how == "signal": os.kill(os.getpid(), 9)
os._exit(code)
"""


def one(seed: int, directory: str) -> None:
    """Run the schedule of this seed; raises Violation when a promise is broken."""
    chance = random.Random(seed)
    count = chance.choice([0, 1, 50, 500, 3000, 8000, 20_000])
    code, how = chance.randrange(256), chance.choice(["exit", "exit", "signal"])
    settings = TerminalSettings()
    settings.id, settings.directory, settings.linger = f"s{seed}", directory, 60.0
    settings.scrollback_bytes = chance.choice([0, 100, 4096, 65536])
    pause = chance.choice([0, 0, 0.0005]) if count <= 3000 else 0
    settings.command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(count), str(pause), str(code), how]
    place = launch(settings)
    peers = [Peer(place.sock, chance) for _ in range(chance.randrange(1, 6))]
    try:
        _drive(place.sock, place.pids()[0], peers, chance)
        _check(peers, count, 137 if how == "signal" else code)
    finally:
        for peer in peers:
            peer.close()
        if place.pids()[0]:
            os.kill(place.pids()[0], signal.SIGKILL)  # the guard does the rest


def _drive(path: str, pid: int, peers: list[Peer], chance: random.Random) -> None:
    deadline = time.monotonic() + LIMIT
    starter = Peer(path, chance)
    steps, started = chance.randrange(5, 60), False
    start_at = chance.randrange(steps)
    try:
        while True:
            if steps > 0:
                steps -= 1
                if steps <= start_at and not started:
                    started = True
                    starter.send(wire.encode(wire.Input(b"go\n")))
                    if chance.random() < 0.3:
                        _freeze(pid, chance)
                if len(peers) < 8 and chance.random() < 0.1:
                    peers.append(Peer(path, chance))
                chance.choice(peers).act()
            else:
                for peer in peers:
                    peer.stalled = False
            live = [peer for peer in peers if peer.open and not peer.stalled]
            ready, _, _ = select.select([peer.sock for peer in live], [], [], 0.001 if steps > 0 else 0.05)
            for peer in live:
                if peer.open and peer.sock in ready:
                    peer.read()
            if steps <= 0 and all(peer.exit is not None for peer in peers if peer.stayed):
                return
            if time.monotonic() > deadline:
                raise Violation("EXIT did not come")
    finally:
        starter.close()


def _freeze(pid: int, chance: random.Random) -> None:
    """Stop the supervisor while the child fills its terminal and dies, so that everything happens at once."""
    time.sleep(chance.choice([0.0, 0.002]))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(chance.choice([0.01, 0.03]))
    os.kill(pid, signal.SIGCONT)


def _check(peers: list[Peer], count: int, code: int) -> None:
    # The typed "go" is echoed first, with the terminal's line ending.
    whole = b"go\r\n" + b"".join(b"%07d\r\n" % number for number in range(count))
    for peer in peers:
        if not peer.stayed:
            continue
        if peer.exit != code:
            raise Violation(f"EXIT {peer.exit}, not {code}")
        if not _in_order(peer.output, whole):
            raise Violation(f"{len(peer.output)} bytes that are not from the output, in order, to its end")
        if peer.told_gaps and not peer.missed and not whole.endswith(peer.output):
            raise Violation("bytes are missing, and no gap was told")


def _in_order(output: bytes, whole: bytes) -> bool:
    """Whether `output` is `whole` with pieces left out, and has the same end."""
    if whole.endswith(output):
        return True
    at = 0
    while output:
        size = 0
        found = whole.find(output[:16], at)
        if found < 0:
            return False
        while size < len(output) and found + size < len(whole) and output[size] == whole[found + size]:
            size += 1
        at, output = found + size, output[size:]
    return at == len(whole)


def main(first: int, count: int, directory: str) -> int:
    violations = 0
    for seed in range(first, first + count):
        try:
            one(seed, directory)
        except Violation as violation:
            violations += 1
            print(f"schedule {seed}: {violation}", flush=True)
        for name in os.listdir(directory):
            if name.endswith((".log", ".out", ".exit")):
                os.unlink(os.path.join(directory, name))
    print(f"{count} schedules, {violations} violations")
    return violations


if __name__ == "__main__":
    os.makedirs(sys.argv[3], mode=0o700, exist_ok=True)
    result = main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    shutil.rmtree(sys.argv[3], ignore_errors=True)
    sys.exit(1 if result else 0)
