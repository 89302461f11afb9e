"""How fast a terminal's output reaches its clients: ours with 1, 10 and 100 subscribers, against a bare reader of the
same kind of pty and the other multiplexers. Cooked text, 75 bytes a line; the time is the program's own, from its first
line to its last, while every client reads all it can."""

import os
import select
import statistics
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks._terminals import Bench, bench, client, drain, installed, settle

MEGABYTES = 30
ROUNDS = 5


def main() -> None:
    with bench() as here:
        text = here.directory / "text"
        text.write_bytes((b"x" * 74 + b"\n") * (MEGABYTES * 1_000_000 // 75))
        rates: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name in ("bare", *installed()):
                rates.setdefault(name, []).append(_peer(here, name, text))
            for count in (1, 10, 100):
                rate, share = _ours(here, text, count)
                rates.setdefault(f"ours {count}", []).append(rate)
                rates.setdefault(f"share {count}", []).append(share)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    bare = medians["bare"]
    best = max((medians[name], name) for name in installed()) if installed() else (0.0, "nobody")
    for name in ("bare", *installed()):
        print(f"{name:18} {medians[name]:6.1f} MB/s")
    for count in (1, 10, 100):
        rate = medians[f"ours {count}"]
        goal = {
            1: f"   {rate / best[0]:.2f}x {best[1]} (goals: 0.80, 1.3x)" if best[0] else "",
            100: "   (goal: 25 MB/s)",
        }
        kept = f"{medians[f'share {count}']:.1%} of it received by each"
        print(f"ours, {count:3} clients {rate:6.1f} MB/s   {rate / bare:.2f} of bare, {kept}{goal.get(count, '')}")


def _script(text: Path, begun: Path, ended: Path) -> str:
    return f"read x; : > {begun}; cat {text}; : > {ended}; sleep 0.2"


def _files(here: Bench) -> tuple[Path, Path]:
    name = here.name()
    return here.directory / f"{name}.begun", here.directory / f"{name}.ended"


def _rate(begun: Path, ended: Path) -> float:
    return MEGABYTES / ((os.stat(ended).st_mtime_ns - os.stat(begun).st_mtime_ns) / 1e9)


def _peer(here: Bench, kind: str, text: Path) -> float:
    begun, ended = _files(here)
    master = here.peer(kind, _script(text, begun, ended))
    settle(master)
    os.write(master, b"\n")
    drain(master)
    os.close(master)
    return _rate(begun, ended)


def _ours(here: Bench, text: Path, count: int) -> tuple[float, float]:
    begun, ended = _files(here)
    place = here.ours("sh", "-c", _script(text, begun, ended))
    ours, theirs = get_context("fork").Pipe()
    reader = get_context("fork").Process(target=_drain_sockets, args=(place.sock, count, theirs))
    reader.start()
    ours.recv()
    with client(place) as typist:
        typist.input(b"\n")
    while not ended.exists():
        time.sleep(0.005)
    received = ours.recv()
    reader.join()
    with client(place) as asker:
        total = asker.detail()["output"]["end"]
        asker.stop(0)
    return _rate(begun, ended), statistics.median(received) / total


def _drain_sockets(path: str, count: int, tell: Connection) -> None:
    """Runs in a process of its own, so that reading competes only with the supervisor."""
    import socket

    socks = {}
    poll = select.epoll()
    for _ in range(count):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        assert sock.recv(1) == b"\0"
        sock.sendall(b"\x02\x00\x00\x00\x00")
        socks[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    tell.send("ready")
    buffer, received = bytearray(1 << 18), dict.fromkeys(socks, 0)
    left = set(socks)
    while left:
        for fd, _ in poll.poll():
            size = socks[fd].recv_into(buffer)
            received[fd] += size
            if not size or bytes(buffer[max(0, size - 9) : size])[:5] == b"\x83\0\0\0\4":  # EXIT is the last frame
                poll.unregister(fd)
                left.discard(fd)
    tell.send(list(received.values()))
    for sock in socks.values():
        sock.close()


if __name__ == "__main__":
    main()
    sys.exit(0)
