"""The worker wire: events through real pipes, time to the first answer, memory of an idle worker, time to cancel."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle.wire.worker.connection import Connection
from treadle.wire.worker.messages import (
    CancelRequest,
    EventLine,
    Init,
    InitConfig,
    InitOk,
    Send,
    SendResult,
    StatusOk,
    StatusRequest,
    ToolStart,
)

EVENTS = 200_000
ROUNDS = 5
WORKER = [str(Path(sys.executable).parent / "treadle-worker")]

DOOR = """
import asyncio, sys
from treadle.doors.worker.door import Worker
from treadle.events import TextDelta
from treadle.io.streams import take_stdio
from tests.stand_ins.sessions import ScriptedAgent

async def flood(session, turn):
    for at in range(0, {events}, 64):
        for _ in range(min(64, {events} - at)):
            session.emit(TextDelta(text="word "))
        await session.room()

sys.exit(asyncio.run(Worker(ScriptedAgent(*[[flood]] * 99), take_stdio(), environ={{}}, warn=print).run()))
"""
PLAIN = """
import json, sys
for line in sys.stdin:
    for seq in range({events}):
        print(json.dumps({{"type": "event", "event": {{"event": "content_delta", "text": "word "}}, "event_seq": seq,
            "send_id": "2", "session_id": "550e8400-e29b-41d4-a716-446655440000"}}), flush=True)
    print(json.dumps({{"type": "result", "id": "2"}}), flush=True)
"""
MODEL = f'loop = true\n[[reply]]\ntext = "word "\nrepeat = {EVENTS}\n'
SLEEPY = 'loop = true\n[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "sleep 99" }\n'


class Client:
    """A client as one would write it: read a chunk, take its messages."""

    def __init__(self, command: list[str], model: str = "m", **env: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}
        )
        assert self.process.stdin and self.process.stdout
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._connection = Connection("client")
        self._left: list[Any] = []
        self.say(Init(id="1", config=InitConfig(model=model, system_prompt="", tools=("bash",))))

    def say(self, message: Any) -> None:
        os.write(self._in, self._connection.send(message))

    def until(self, kind: type) -> int:
        """Messages up to and including the first of this kind; events count by their payload's kind too."""
        count = 0
        while True:
            if not self._left:
                self._left = self._connection.receive(os.read(self._out, 1 << 20))[::-1]
            while self._left:
                message = self._left.pop()
                count += 1
                if type(message) is kind or (type(message) is EventLine and type(message.event) is kind):
                    return count

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Measured:
    """Wall time, and the CPU time at both ends, which a busy machine affects less."""

    def __init__(self, pid: int | None) -> None:
        self.wall: list[float] = []
        self.there: list[float] = []
        self.here: list[float] = []
        self._pid = pid

    def take(self, run: Callable[[], float]) -> None:
        here, there = time.process_time(), self._cpu()
        self.wall.append(run())
        self.here.append(time.process_time() - here)
        self.there.append(self._cpu() - there)

    def _cpu(self) -> float:
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def rate(self) -> float:
        return EVENTS / statistics.median(self.wall)

    @property
    def spent(self) -> str:
        there, here = (statistics.median(times) / EVENTS * 1e6 for times in (self.there, self.here))
        return f"{there:4.1f} + {here:4.1f} us CPU" if self._pid else ""


def stream(client: Client) -> float:
    began = time.perf_counter()
    client.say(Send(id="2", message="go"))
    assert client.until(SendResult) >= EVENTS
    return time.perf_counter() - began


def plain_stream(process: subprocess.Popen[bytes]) -> float:
    assert process.stdin and process.stdout
    began = time.perf_counter()
    process.stdin.write(b"go\n")
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "result":
            break
    return time.perf_counter() - began


def cat(path: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        while os.read(process.stdout.fileno(), 1 << 20):
            pass
    return time.perf_counter() - began


def throughput(folder: Path) -> None:
    (folder / "model.toml").write_text(MODEL)
    line = b'{"type":"event","event":{"event":"content_delta","text":"word "},"event_seq":100000,"send_id":"2",'
    (folder / "bytes").write_bytes((line + b'"session_id":"550e8400-e29b-41d4-a716-446655440000"}\n') * EVENTS)
    plain = [sys.executable, "-c", PLAIN.format(events=EVENTS)]
    names = ("native agent, scripted model", "any session", "print(json.dumps) to json.loads", "cat, same bytes")
    door = [sys.executable, "-c", DOOR.format(events=EVENTS)]
    with (
        Client(WORKER, f"scripted:{folder / 'model.toml'}") as native,
        Client(door) as session,
        subprocess.Popen(plain, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer,
    ):
        native.until(InitOk)
        session.until(InitOk)
        runs: list[Callable[[], float]] = [
            lambda: stream(native),
            lambda: stream(session),
            lambda: plain_stream(peer),
            lambda: cat(folder / "bytes"),
        ]
        pids = (native.process.pid, session.process.pid, peer.pid, None)
        results = [Measured(pid) for pid in pids]
        for _ in range(ROUNDS):
            for result, run in zip(results, runs, strict=True):
                result.take(run)
    base = results[2].rate
    for name, result in zip(names, results, strict=True):
        best = EVENTS / min(result.wall)
        ratio = result.rate / base
        print(f"{name:34} {result.rate:>12,.0f} events/s, best {best:>12,.0f} {ratio:6.1f}x plain  {result.spent}")


def median(measure: Callable[[], float], times: int = 11) -> float:
    return statistics.median(measure() for _ in range(times))


def start_up(folder: Path) -> None:
    (folder / "set").mkdir()
    (folder / "set" / "config.toml").write_text('mode = "full-auto"\n')

    def nothing() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        return time.perf_counter() - began

    def answered(**env: str) -> float:
        began = time.perf_counter()
        with Client(WORKER, "vendor/model", OPENROUTER_API_KEY="k", **env) as client:
            client.until(InitOk)
            return time.perf_counter() - began

    def ready() -> float:
        began = time.perf_counter()
        with Client(WORKER, "vendor/model", OPENROUTER_API_KEY="k") as client:
            client.until(InitOk)
            client.say(StatusRequest(id="2"))
            client.until(StatusOk)
            return time.perf_counter() - began

    base, init, loaded = median(nothing), median(answered), median(ready)
    with_thought = median(lambda: answered(TREADLE_HOME=str(folder / "set")))
    print(f"python -c pass                     {base * 1000:8.1f} ms")
    for what, seconds in (
        ("spawn to init_ok, plain init", init),
        ("spawn to init_ok, settings file", with_thought),
        ("spawn to all loaded", loaded),
    ):
        print(f"{what:34} {seconds * 1000:8.1f} ms  {seconds / base:6.1f}x python -c pass")


def memory() -> None:
    with Client(WORKER, "vendor/model", OPENROUTER_API_KEY="k") as client:
        client.until(InitOk)
        client.say(StatusRequest(id="2"))
        client.until(StatusOk)
        status = Path(f"/proc/{client.process.pid}/status").read_text()
        rss = int(status.split("VmRSS:")[1].split()[0]) / 1024
    print(f"idle worker                        {rss:8.1f} MB resident")


def cancelling(folder: Path, times: int = 100) -> None:
    (folder / "sleepy.toml").write_text(SLEEPY)
    took: list[float] = []
    with Client(WORKER, f"scripted:{folder / 'sleepy.toml'}") as client:
        client.until(InitOk)
        for number in range(times):
            client.say(Send(id=f"s{number}", message="go"))
            client.until(ToolStart)
            began = time.perf_counter()
            client.say(CancelRequest(id=f"c{number}", target_id=f"s{number}"))
            client.until(SendResult)
            took.append((time.perf_counter() - began) * 1000)
    took.sort()
    p99 = took[int(len(took) * 0.99) - 1]
    print(f"cancel line to result line         {took[len(took) // 2]:8.1f} ms median, {p99:.1f} ms p99, tool running")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ["TREADLE_HOME"] = name
        folder = Path(name)
        throughput(folder)
        start_up(folder)
        memory()
        cancelling(folder)
    print(f"(load average {os.getloadavg()[0]:.1f})")
