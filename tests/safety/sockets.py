"""Unix sockets and FIFOs outside of a sandbox, each with another history, and a program that tries to reach them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

TRY = r"""
import json, os, socket, sys
KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}
for name, kind, address in json.load(open(sys.argv[1])):
    try:
        if kind == "write":
            os.write(os.open(address, os.O_WRONLY | os.O_NONBLOCK), b"x")
        elif kind == "read":
            assert os.read(os.open(address, os.O_RDONLY | os.O_NONBLOCK), 100) == b"secret"
        elif kind == "pair":
            socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", address)
        elif kind == "beside":
            os.chdir(os.path.dirname(address))
            socket.socket(socket.AF_UNIX).connect(os.path.basename(address))
        elif kind == "datagram":
            socket.socket(socket.AF_UNIX, KINDS[kind]).sendto(b"x", address)
        else:
            socket.socket(socket.AF_UNIX, KINDS[kind]).connect(address)
        print("GOT", name, flush=True)
    except (OSError, AssertionError) as error:
        print("not", name, repr(error), flush=True)
print("end")
"""
ELSEWHERE = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(); input()"


class Outside:
    """`home` can be read from the sandbox and `workspace` written; both are full of what must not be reached."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home, self.workspace = home, workspace
        self.tries: list[tuple[str, str, str]] = []
        self._listening: dict[str, socket.socket] = {}
        self._fifos: dict[str, int] = {}
        self._elsewhere: list[subprocess.Popen[bytes]] = []
        for label, place in (("home", home), ("workspace", workspace)):
            self._fill(label, place)
        (workspace / "to-home").symlink_to(home)
        self._try("home, by a link in the workspace", "stream", f"{workspace}/to-home/plain")
        self._try("home, through /proc", "stream", f"/proc/self/root{home}/plain")
        os.link(home / "plain", workspace / "hard")
        self._try("home, by a hard link in the workspace", "stream", f"{workspace}/hard")
        self._abstract("stream", socket.SOCK_STREAM)
        self._abstract("datagram", socket.SOCK_DGRAM)

    def _try(self, name: str, kind: str, address: str) -> None:
        self.tries.append((name, kind, address))

    def _fill(self, label: str, place: Path) -> None:
        (place / "deep").mkdir()
        self._bind(f"{label}, plain", place / "plain")
        self._bind(f"{label}, datagrams", place / "datagrams", "datagram", socket.SOCK_DGRAM)
        self._try(f"{label}, datagrams from a pair", "pair", f"{place}/datagrams")
        self._bind(f"{label}, packets", place / "packets", "packets", socket.SOCK_SEQPACKET)
        self._bind(f"{label}, renamed", place / "first")
        (place / "first").rename(place / "renamed")
        self.tries[-1] = (f"{label}, renamed", "stream", f"{place}/renamed")
        self._bind(f"{label}, linked as ssh does", place / "temporary")
        os.link(place / "temporary", place / "deep" / "linked")
        (place / "temporary").unlink()
        self.tries[-1] = (f"{label}, linked as ssh does", "stream", f"{place}/deep/linked")
        self._bind(f"{label}, bound by a relative name", place / "relative", relative=True)
        self._try(f"{label}, from beside it", "beside", f"{place}/plain")
        self._in_another_network(f"{label}, another network namespace", place / "elsewhere")
        for name in ("write", "read"):
            os.mkfifo(place / f"fifo-{name}", 0o666)
            self._fifos[f"{label}, FIFO to {name}"] = os.open(place / f"fifo-{name}", os.O_RDWR | os.O_NONBLOCK)
            self._try(f"{label}, FIFO to {name}", name, f"{place}/fifo-{name}")
        os.write(self._fifos[f"{label}, FIFO to read"], b"secret")
        for path in place.rglob("*"):
            path.chmod(0o777)

    def _bind(
        self,
        name: str,
        path: Path,
        kind: str = "stream",
        number: int = socket.SOCK_STREAM,
        *,
        relative: bool = False,
    ) -> None:
        made = socket.socket(socket.AF_UNIX, number | socket.SOCK_NONBLOCK)
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name if relative else str(path))
        finally:
            os.chdir(here)
        if kind != "datagram":
            made.listen()
        self._listening[name] = made
        self._try(name, kind, str(path))

    def _abstract(self, kind: str, number: int) -> None:
        made = socket.socket(socket.AF_UNIX, number | socket.SOCK_NONBLOCK)
        made.bind(f"\0treadle-{kind}-{os.getpid()}")
        if kind == "stream":
            made.listen()
        self._listening[f"abstract, {kind}"] = made
        self._try(f"abstract, {kind}", kind, f"\0treadle-{kind}-{os.getpid()}")

    def _in_another_network(self, name: str, path: Path) -> None:
        flags = "-n" if os.geteuid() == 0 else "-rn"
        argv = ["unshare", flags, sys.executable, "-I", "-S", "-c", ELSEWHERE, str(path)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        self._elsewhere.append(process)
        self._try(name, "stream", str(path))

    def reached(self) -> list[str]:
        """Those at which something arrived."""
        found = []
        for name, one in self._listening.items():
            try:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    one.accept()[0].close()
                else:
                    one.recv(100)
            except BlockingIOError:
                continue
            found.append(name)
        for name, fd in self._fifos.items():
            try:
                said = os.read(fd, 100)
            except BlockingIOError:
                said = b""
            if said != (b"secret" if name.endswith("read") else b""):
                found.append(name)
        return found

    def close(self) -> None:
        for one in self._listening.values():
            one.close()
        for fd in self._fifos.values():
            os.close(fd)
        for process in self._elsewhere:
            process.communicate(b"\n")
