"""What a session costs to start, to keep and to look at, compared with dtach, tmux and abduco where installed.

Runs all parts, or the named ones: `python -m benchmarks.terminal_sessions start memory listing idle replay thousand`.
"""

import compileall
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import treadle
from benchmarks._terminals import Bench, bench, client, pss
from benchmarks._timing import interleaved
from treadle.io.process import table
from treadle.terminal.places import Place

TREADLE = str(Path(sys.executable).with_name("treadle"))


def main(names: Sequence[str] = ()) -> None:
    compileall.compile_dir(os.path.dirname(treadle.__file__), quiet=2)  # as an installed package is
    parts = {"start": _start, "memory": _memory, "listing": _listing, "idle": _idle, "replay": _replay}
    parts["thousand"] = _thousand
    for name in names or parts:
        with bench() as here:
            parts[name](here)


def _start(here: Bench) -> None:
    os.environ["TREADLE_HOME"] = str(here.directory)
    count = iter(range(10_000))
    times: dict[str, list[float]] = {}
    for _ in range(25):
        name = f"r{next(count)}"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "run --detach": [
                TREADLE,
                "run",
                "--detach",
                "--id",
                name,
                "--socket-dir",
                str(here.directory),
                "sleep",
                "300",
            ],
            "status": [TREADLE, "status", name, "--socket-dir", str(here.directory)],
            "send": [TREADLE, "send", name, "x", "--socket-dir", str(here.directory)],
        }
        if shutil.which("dtach"):
            commands["dtach -n"] = ["dtach", "-n", str(here.directory / f"{name}.d"), "sleep", "300"]
        if shutil.which("tmux"):
            tmux = ["tmux", "-S", str(here.directory / "tmux"), "-f", "/dev/null", "new-session", "-d", "sleep", "300"]
            commands["tmux new-session"] = tmux
        if shutil.which("abduco"):
            os.environ["ABDUCO_SOCKET_DIR"] = str(here.directory)
            commands["abduco -n"] = ["abduco", "-n", name, "sleep", "300"]
        for label, value in interleaved(commands, 1).items():
            times.setdefault(label, []).append(value)
    medians = {label: statistics.median(values) for label, values in times.items()}
    for label, value in medians.items():
        tmux = medians.get("tmux new-session")
        against = f", {value / tmux:.2f}x tmux (goal: 45 ms)" if label == "run --detach" and tmux else ""
        print(f"{label:18} {value:6.1f} ms   {value / medians['python -c pass']:.2f}x python -c pass{against}")


def _family(place: Place) -> list[int]:
    """The supervisor and its reaper."""
    supervisor = place.pids()[0]
    return [supervisor, *(process.pid for process in table.processes() if process.parent == supervisor)]


def _memory(here: Bench) -> None:
    """Sessions started one by one from the command line, as a person does."""
    os.environ["TREADLE_HOME"] = str(here.directory)
    count = 100
    for number in range(count):
        arguments = ["run", "--detach", "--id", f"m{number}", "--socket-dir", str(here.directory), "sleep", "300"]
        subprocess.run([TREADLE, *arguments], check=True, stdout=subprocess.DEVNULL)
    places = [Place(str(here.directory), f"m{number}") for number in range(count)]
    parts = [[pss(pid) for pid in _family(place)] for place in places]
    supervisor, reaper = (statistics.mean(part[index] for part in parts) / 1e6 for index in (0, 1))
    print(
        f"idle session {supervisor + reaper:5.2f} MB proportional   ({supervisor:.2f} supervisor, {reaper:.2f} reaper)"
    )
    for peer in ("dtach", "abduco"):
        if shutil.which(peer):
            print(f"{peer:12} {_peer_memory(here, peer, count):5.2f} MB")


def _peer_memory(here: Bench, peer: str, count: int) -> float:
    """Megabytes of each of this many idle sessions of another program."""
    before = {process.pid for process in table.processes()}
    os.environ["ABDUCO_SOCKET_DIR"] = str(here.directory)
    for number in range(count):
        name = str(here.directory / f"d{number}") if peer == "dtach" else f"d{number}"
        subprocess.run([peer, "-n", name, "sleep", "300"], check=True)
    mine = [process.pid for process in table.processes() if process.pid not in before and process.name == peer]
    return statistics.mean(map(pss, mine)) / 1e6


def _listing(here: Bench) -> None:
    count = 400
    os.environ["TREADLE_HOME"] = str(here.directory)
    arguments = ["run", "--detach", "--id", "first", "--socket-dir", str(here.directory), "sleep", "300"]
    subprocess.run([TREADLE, *arguments], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-c", WARM, str(here.directory), str(count - 1)], check=True)
    command = [TREADLE, "ls", "--socket-dir", str(here.directory)]
    taken = interleaved({"ls": command, "python -c pass": [sys.executable, "-c", "pass"]}, 7)
    times = taken["ls"] / taken["python -c pass"]
    print(f"ls of {count:3} {taken['ls']:14.1f} ms   {times:.2f}x python -c pass (goal: 100 ms)")


def _idle(here: Bench) -> None:
    places = [here.ours("sleep", "300") for _ in range(100)]
    pids = [pid for place in places for pid in _family(place)]
    time.sleep(1)
    before = sum(map(_cpu, pids))
    time.sleep(10)
    print(
        f"100 idle sessions use {(sum(map(_cpu, pids)) - before) * 100:.1f} ms of processor time in 10 s   (goal: none)"
    )


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 10


def _replay(here: Bench) -> None:
    place = here.ours("sh", "-c", "yes 'a line of the scrollback' | head -c 1500000; sleep 300", scrollback=1 << 20)
    with client(place) as asker:
        while asker.detail()["output"]["end"] < 1_500_000:
            time.sleep(0.01)
    times = []
    for _ in range(20):
        started = time.perf_counter()
        with client(place) as reader:
            reader.subscribe()
            got = 0
            for message in reader.messages(20):
                got += len(getattr(message, "data", b""))
                if got >= 1 << 20:
                    break
        times.append((time.perf_counter() - started) * 1000)
    print(f"replay of a 1 MiB scrollback {statistics.median(times):.2f} ms from connect to the last byte")


def _thousand(here: Bench) -> None:
    """A thousand sessions at once, forked from one small warm parent."""
    count = 1000
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", WARM, str(here.directory), str(count)], check=True)
    took = (time.perf_counter() - started) / count * 1000
    places = [Place(str(here.directory), f"w{number}") for number in range(count)]
    with client(places[-1]) as last:
        assert last.status().alive
    total = sum(pss(pid) for place in places for pid in _family(place))
    print(
        f"{count} sessions forked from a warm parent: {total / 1e9:.2f} GB proportional (goal: 1), {took:.1f} ms each"
    )


WARM = """
import sys
from treadle.terminal import supervisor
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings
for number in range(int(sys.argv[2])):
    settings = TerminalSettings()
    settings.id, settings.directory, settings.command = f"w{number}", sys.argv[1], ["sleep", "600"]
    launch(settings)
"""

if __name__ == "__main__":
    main(sys.argv[1:])
