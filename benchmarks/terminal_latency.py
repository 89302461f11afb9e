"""From a key to its echo: through the terminal to a program in raw mode and back. Ours at the socket, the others as a
person's terminal sees them; then ours again while four other sessions flood."""

import os
import select
import statistics
import time

from benchmarks._terminals import Bench, bench, client, installed, settle
from treadle.terminal.client import Client
from treadle.wire.terminal import frames as wire

KEYS = 400
ROUNDS = 5
ECHO = "stty raw -echo; printf READY; exec cat"


def main() -> None:
    with bench() as here:
        times: dict[str, list[float]] = {}
        names = ["bare", *installed()]
        masters = {name: here.peer(name, ECHO) for name in names}
        for master in masters.values():
            settle(master)
        place = here.ours("sh", "-c", ECHO)
        with client(place) as ours:
            ours.subscribe()
            _await_ready(ours)
            for _ in range(ROUNDS):
                for name, master in masters.items():
                    times.setdefault(name, []).extend(_through_pty(master))
                times.setdefault("ours", []).extend(_through_socket(ours))
            flooders = [_flooder(here) for _ in range(4)]
            for _ in range(ROUNDS):
                times.setdefault("ours beside 4 floods", []).extend(_through_socket(ours))
                for name in ("bare", "dtach"):
                    if name in masters:
                        times.setdefault(f"{name} beside 4 floods", []).extend(_through_pty(masters[name]))
            for flooder in flooders:
                flooder.close()
    bare = statistics.median(times["bare"])
    dtach = statistics.median(times["dtach"]) if "dtach" in times else 0.0
    for name, values in times.items():
        values.sort()
        p50, p99 = values[len(values) // 2], values[len(values) * 99 // 100]
        against = f", {p50 / dtach:.2f}x dtach (goal: 1.2x)" if name == "ours" and dtach else ""
        print(f"{name:24} p50 {p50 * 1e6:6.0f} us   p99 {p99 * 1e6:7.0f} us   {p50 / bare:.2f}x bare{against}")


def _await_ready(ours: Client) -> None:
    output = b""
    for message in ours.messages(20):
        output += message.data if isinstance(message, wire.Output) else b""
        if b"READY" in output:
            return


def _through_pty(master: int) -> list[float]:
    found = []
    for _ in range(KEYS):
        started = time.perf_counter()
        os.write(master, b"k")
        select.select([master], [], [], 5)
        os.read(master, 65536)
        found.append(time.perf_counter() - started)
    return found


def _through_socket(ours: Client) -> list[float]:
    found = []
    key = wire.encode(wire.Input(b"k"))
    for _ in range(KEYS):
        started = time.perf_counter()
        ours.sock.send(key)
        ours.sock.recv(65536)
        found.append(time.perf_counter() - started)
    return found


def _flooder(here: Bench) -> Client:
    flooder = client(here.ours("sh", "-c", "while :; do echo flooding the terminal with lines; done"))
    flooder.subscribe()
    return flooder


if __name__ == "__main__":
    main()
