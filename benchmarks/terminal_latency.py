"""From a key to its echo, as a person's terminal sees it: typed on the pty of an attached client, through the
terminal to a program in raw mode and back. Ours is `treadle attach`; the others use their own clients, and beside them
is the least that can be done in Python. Then the same
beside four sessions that flood output, and ours at the bare socket, for which there is no peer.
"""

import os
import statistics
import sys
import time
from pathlib import Path

from benchmarks._terminals import FLOOR, Bench, bench, client, installed, settle
from treadle.terminal.client import Client
from treadle.wire.terminal import frames as wire

KEYS = 300
ROUNDS = 5
ECHO = "stty raw -echo; printf READY; exec cat"
TREADLE = str(Path(sys.executable).with_name("treadle"))


def main() -> None:
    with bench() as here:
        times: dict[str, list[float]] = {}
        masters = {name: here.peer(name, ECHO) for name in ("bare", FLOOR, *installed())}
        place = here.ours("sh", "-c", ECHO)
        masters["ours"] = here.on_pty(TREADLE, "attach", place.id, "--socket-dir", str(here.directory))
        for master in masters.values():
            _shown(master, b"READY")  # before that, the kernel itself would echo
            settle(master)
        for _ in range(ROUNDS):
            for name, master in masters.items():
                times.setdefault(name, []).extend(_through_pty(master))
        flooders = [_flooder(here) for _ in range(4)]
        for _ in range(ROUNDS):
            for name in ("bare", "dtach", "ours"):
                if name in masters:
                    times.setdefault(f"{name} beside 4 floods", []).extend(_through_pty(masters[name]))
        for flooder in flooders:
            flooder.close()
        for master in masters.values():
            os.close(master)
        with client(here.ours("sh", "-c", ECHO)) as ours:
            ours.subscribe()
            _await_ready(ours)
            times["ours, bare socket"] = [taken for _ in range(ROUNDS) for taken in _through_socket(ours)]
    p50 = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        values.sort()
        late = values[len(values) * 99 // 100]
        against = f", {p50[name] / p50[FLOOR]:.2f}x the least in Python" if name == "ours" else ""
        if name in ("ours", FLOOR) and "dtach" in p50:
            against += f", {p50[name] / p50['dtach']:.2f}x dtach (goal: 1.3x)"
        took = f"p50 {p50[name] * 1e6:6.0f} us   p99 {late * 1e6:7.0f} us"
        print(f"{name:24} {took}   {p50[name] / p50['bare']:.2f}x bare{against}")


def _shown(master: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        seen += os.read(master, 65536)


def _await_ready(ours: Client) -> None:
    output = b""
    for message in ours.messages(20):
        output += message.data if isinstance(message, wire.ProgramOutput) else b""
        if b"READY" in output:
            return


def _through_pty(master: int) -> list[float]:
    """Each key is another letter, so that a late echo of the previous one is not taken for its own."""
    found = []
    for number in range(KEYS):
        key = b"%c" % (97 + number % 26)
        started = time.perf_counter()
        os.write(master, key)
        while key not in os.read(master, 65536):
            pass
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
