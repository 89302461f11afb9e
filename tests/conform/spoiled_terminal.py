"""A small supervisor of terminals with at most one fault: `python spoiled_terminal.py FAULT run ... -- PROGRAM`.

Plain Python: it stands for another vendor's program. FAULT is one of those in test_terminal.py, or `none`.
"""

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time

FAULT = sys.argv[1]
WORDS = sys.argv[2:]
PROGRAM = WORDS[WORDS.index("--") + 1 :]
OPTIONS = dict(zip(WORDS[1::], WORDS[2::], strict=False))
THRESHOLD = int(OPTIONS.get("--idle-threshold-ms", "3000")) / 1000
PATH = os.path.join(OPTIONS["--socket-dir"], OPTIONS["--id"] + ".sock")


class Connection:
    def __init__(self, peer: socket.socket) -> None:
        self.peer, self.rest, self.subscribed = peer, b"", False
        self.send(b"" if FAULT == "no mode" else b"\x01" if FAULT == "text mode" else b"\0")
        if FAULT == "talks first":
            self.frame(0x81, b"welcome")

    def send(self, data: bytes) -> None:
        try:
            self.peer.sendall(data)
        except OSError:
            pass

    def frame(self, kind: int, payload: bytes) -> None:
        order = "little" if FAULT == "little endian" else "big"
        self.send(bytes([kind]) + len(payload).to_bytes(4, order) + payload)  # type: ignore[arg-type]


class Supervisor:
    def __init__(self) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvp(PROGRAM[0], PROGRAM)
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(PATH)
        self.listening.listen()
        self.clients: list[Connection] = []
        self.scrollback = b""
        self.wrote = self.changed = time.monotonic()
        self.state = 4

    def run(self) -> None:
        while True:
            files = [self.listening, self.terminal, *(client.peer for client in self.clients)]
            ready = select.select(files, [], [], 0.01)[0]
            self.judge()
            if self.listening in ready and not (FAULT == "one client" and self.clients):
                self.clients.append(Connection(self.listening.accept()[0]))
            if self.terminal in ready and not self.pass_on():
                return self.end()
            for client in [client for client in self.clients if client.peer in ready]:
                self.hear(client)

    def judge(self) -> None:
        busy = time.monotonic() - self.wrote < THRESHOLD and FAULT != "never active"
        state = 9 if FAULT == "unknown state" else 4 if busy else 0
        if state != self.state:
            self.state, self.changed = state, time.monotonic()

    def pass_on(self) -> bool:
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.wrote = time.monotonic()
        if FAULT == "text only":
            data = data.decode(errors="ignore").encode()
        self.scrollback += data
        shown = [client for client in self.clients if client.subscribed]
        for client in shown[: 1 if FAULT == "one subscriber" else None]:
            client.frame(0x81, data)
        return True

    def end(self) -> None:
        status = os.waitpid(self.pid, 0)[1]
        code = 0 if FAULT == "exit code" else os.waitstatus_to_exitcode(status)
        for client in self.clients:
            if client.subscribed and FAULT != "no exit":
                client.frame(0x83, code.to_bytes(4, "big", signed=True))
            client.peer.close()
        os.unlink(PATH)

    def hear(self, client: Connection) -> None:
        try:
            data = client.peer.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.clients.remove(client)
            if FAULT == "ends with a client":
                os.kill(self.pid, signal.SIGKILL)
            return
        client.rest += data
        if FAULT == "whole frames only" and len(client.rest) < 5:
            client.rest = b""
        while len(client.rest) >= 5 and len(client.rest) >= 5 + (length := int.from_bytes(client.rest[1:5], "big")):
            kind, payload, client.rest = client.rest[0], client.rest[5 : 5 + length], client.rest[5 + length :]
            self.do(client, kind, payload)
            if FAULT == "one frame a write":
                client.rest = b""

    def do(self, client: Connection, kind: int, payload: bytes) -> None:
        if kind == 1:
            if FAULT == "empty frame" and not payload:
                os.kill(self.pid, signal.SIGKILL)
            os.write(self.terminal, payload.replace(b"\0", b"") if FAULT == "input without zeros" else payload)
        elif kind == 2:
            client.subscribed = True
            if self.scrollback and FAULT != "no scrollback":
                client.frame(0x81, self.scrollback)
        elif kind == 3 and not (FAULT == "no status while subscribed" and client.subscribed):
            client.frame(0x82, self.status())
        elif kind == 4:
            columns, rows = struct.unpack(">HH", payload)
            size = (columns, rows) if FAULT == "resize" else (rows, columns)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        elif kind == 5 and FAULT != "no kill":
            if FAULT == "kill one":
                os.kill(self.pid, signal.SIGTERM)
            elif FAULT == "kill its child":
                with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
                    os.kill(int(children.read().split()[0]), signal.SIGTERM)
            else:
                os.killpg(self.pid, signal.SIGTERM)

    def status(self) -> bytes:
        now = time.monotonic()
        idle, held = int((now - self.wrote) * 1000), int((now - self.changed) * 1000)
        found = struct.pack(
            ">IIBBIB",
            self.pid + (FAULT == "pid"),
            0 if FAULT == "idle" else idle,
            FAULT != "dead",
            self.state,
            held,
            FAULT == "reserved",
        )
        return found[:14] if FAULT == "short status" else found


Supervisor().run()
