"""The sidecar wire: events per second through the control plane, time to the first event, and hashing a receipt.

The mix is that of an agent at work: of ten events, seven are deltas of varied text, one is a tool call with its path,
one is its result of a few lines, one reports a changed file. Every line differs from the others.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace
from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT

from treadle.drivers.sidecar.peer import SidecarPeer
from treadle.host.job import Backend, Job
from treadle.host.order import RunSupervisor
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.redact import MARK, SHAPES
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import NO_POLICY, Requirements, Run, WorkOrder, WorkspaceSpec
from treadle.wire.sidecar.receipts import AnyAgentEvent, AssistantDelta, ToolCalled, ToolReturned

ROUNDS = 5
EVENTS = 200_000
FLOODER = r"""
import json, random, sys
out = sys.stdout.buffer
out.write(b'{"t":"hello","contract_version":"abp/v0.1","backend":{"id":"flood"},"capabilities":{},"mode":"mapped"}\n')
out.flush()
run = json.loads(sys.stdin.readline())
ref, number = run["id"], int(run["work_order"]["task"])
chance = random.Random(4)
words = ["the ", "parser ", "reads ", "one ", "line ", "at a time; ", "caf\u00e9 ", "\n", "so ", "\"quoted\" ", "it "]
ts = "2025-01-15T12:00:00.%03dZ"
def made(at):
    moment = ts % (at % 1000)
    if at % 10 == 7:
        given = {"path": "src/part_%d/module_%d.py" % (at % 40, at), "limit": at % 300}
        tool = chance.choice(["read_file", "grep", "edit_file", "Bash"])
        if tool == "Bash":
            given = {"command": "python -m pytest -q tests/test_%d.py" % at}
        return {"ts": moment, "type": "tool_call", "tool_name": tool, "input": given, "tool_use_id": "call_%d" % at}
    if at % 10 == 8:
        text = "def f_%d(x):\n    return x + %d\n" % (at, at) * chance.randrange(1, 12)
        return {"ts": moment, "type": "tool_result", "tool_name": "read_file", "output": text, "is_error": False,
                "tool_use_id": "call_%d" % (at - 1)}
    if at % 10 == 9:
        path = "src/part_%d/module_%d.py" % (at % 40, at)
        return {"ts": moment, "type": "file_changed", "path": path, "summary": "modified"}
    text = "".join(chance.choices(words, k=chance.randrange(1, 9)))
    return {"ts": moment, "type": "assistant_delta", "text": text}
def line(at):
    return json.dumps({"t": "event", "ref_id": ref, "event": made(at)}, separators=(",", ":")).encode() + b"\n"
lines = [line(at) for at in range(min(number, 20_000))]
block = b"".join(lines)
for _ in range(number // 20_000):
    out.write(block)
out.write(b"".join(lines[:number % 20_000]))
event = {"ts": "2025-01-15T12:00:00.123Z"}
meta = {"run_id": ref, "work_order_id": run["work_order"]["id"], "contract_version": "abp/v0.1"}
times = {"started_at": event["ts"], "finished_at": event["ts"], "duration_ms": 0}
receipt = {"meta": {**meta, **times}, "backend": {"id": "flood"}, "capabilities": {}, "usage_raw": {}, "usage": {}}
receipt |= {"trace": [], "artifacts": [], "verification": {"harness_ok": False}, "outcome": "complete"}
out.write(json.dumps({"t": "final", "ref_id": ref, "receipt": receipt}).encode() + b"\n")
out.flush()
"""


def order(root: str, number: int) -> WorkOrder:
    return replace(
        SAMPLE_ORDER,
        id=str(uuid.uuid4()),
        task=str(number),
        workspace=WorkspaceSpec(root=root, mode="pass_through", include=[], exclude=[]),
        policy=NO_POLICY,
        requirements=Requirements(required=[]),
        config=replace(SAMPLE_ORDER.config, max_turns=None, max_budget_usd=None),
    )


class Flood:
    """The same sidecar, read in three ways. Each returns the seconds from its first event to its last line."""

    def __init__(self, directory: Path) -> None:
        self.script = directory / "flood.py"
        self.script.write_text(FLOODER)
        self.root = directory / "root"
        self.root.mkdir()
        self.argv = (sys.executable, "-I", "-S", str(self.script))

    def start(self, number: int | None = None) -> tuple[subprocess.Popen[bytes], str]:
        process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        process.stdout.readline()
        run = str(uuid.uuid4())
        line = msgspec.json.encode(Run(id=run, work_order=order(str(self.root), number or EVENTS)))
        process.stdin.write(line + b"\n")
        process.stdin.close()
        return process, run

    def cat(self) -> float:
        process, _ = self.start()
        assert process.stdout
        process.stdout.read(1)
        began = time.perf_counter()
        subprocess.run(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        process.wait()
        return time.perf_counter() - began

    def plain_loop(self, number: int = EVENTS) -> float:
        """What one would write in an afternoon: read a line, parse it, check it, keep the event."""
        process, run = self.start(number)
        assert process.stdout
        began, trace = 0.0, []
        for line in process.stdout:
            message = json.loads(line)
            if message["t"] == "event":
                began = began or time.perf_counter()
                if message["ref_id"] != run:
                    raise ValueError("wrong ref_id")
                trace.append(message["event"])
            elif message["t"] == "final":
                break
        seconds = time.perf_counter() - began
        process.wait()
        assert len(trace) == number
        return seconds

    def keeping_loop(self, number: int = EVENTS) -> None:
        """The same loop when it also writes each event to a file, without what looks like a secret."""
        process, run = self.start(number)
        assert process.stdout
        secrets = re.compile("|".join(shape for shape, _ in SHAPES))

        def mark(found: re.Match[str]) -> str:
            return (found[found.lastgroup] if found.lastgroup else "") + MARK

        with (self.root.parent / "events.jsonl").open("w") as file:
            for line in process.stdout:
                message = json.loads(line)
                if message["t"] == "event":
                    if message["ref_id"] != run:
                        raise ValueError("wrong ref_id")
                    file.write(secrets.sub(mark, json.dumps(message["event"])) + "\n")
                elif message["t"] == "final":
                    break
        process.wait()

    def host(self, number: int = EVENTS) -> float:
        """The whole control plane: handshake, policy, limits, trace, a journal of events on disk without secrets."""
        times: list[float] = []

        def heard(events: Sequence[AnyAgentEvent]) -> None:
            if len(times) < 2:
                times.append(time.perf_counter())
            times[-1] = time.perf_counter()

        backend = Backend(name="flood", argv=self.argv)
        job = Job(order=order(str(self.root), number), backend=backend, mode="pass_through")
        run = HostRun(job, ReceiptStore(), listener=heard)
        receipt = asyncio.run(run.run())
        assert receipt.outcome == "complete" and run.observed.trace.seen == number, run.observed.error
        return times[-1] - times[0]

    def first_event(self) -> tuple[float, float]:
        """Milliseconds from the `run` line to the first event, read from a bare pipe and by the control plane."""
        process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        process.stdout.readline()
        line = msgspec.json.encode(Run(id=str(uuid.uuid4()), work_order=order(str(self.root), 1)))
        began = time.perf_counter()
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        json.loads(process.stdout.readline())
        bare = time.perf_counter() - began
        process.communicate()
        return bare * 1000, asyncio.run(self._first_event_of_host()) * 1000

    async def _first_event_of_host(self) -> float:
        peer = await SidecarPeer.spawn(self.argv, env=dict(os.environ), cwd=str(self.root))
        async with peer:
            await peer.await_hello()
            work = order(str(self.root), 1)
            supervisor = RunSupervisor(work)
            began = time.perf_counter()
            async with contextlib.aclosing(peer.run(work, str(uuid.uuid4()))) as batches:
                supervisor.watch(await anext(batches))
                return time.perf_counter() - began


def big_receipt(number: int = 10_000) -> receipts.Receipt:
    ts = "2025-01-15T12:00:00.123Z"
    trace: list[AnyAgentEvent] = []
    for at in range(number):
        match at % 10:
            case 8:
                given = {"path": f"src/module_{at}.py", "limit": 200, "options": {"z": 1, "a": [1, 2, 3.5]}}
                trace.append(ToolCalled(ts=ts, tool_name="read", input=given, tool_use_id=f"call_{at}"))
            case 9:
                out = "def f(x):\n    return x + 1\n" * 10
                trace.append(
                    ToolReturned(ts=ts, tool_name="read", output=out, is_error=False, tool_use_id=f"call_{at - 1}")
                )
            case _:
                trace.append(AssistantDelta(ts=ts, text="a few words "))
    return receipts.normal(replace(SAMPLE_RECEIPT, trace=trace))


def interleaved(*measures: Callable[[], object], rounds: int = 25) -> list[list[float]]:
    """Milliseconds of each, measured in turn, so that a busy machine affects all of them."""
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for measure, times in zip(measures, found, strict=True):
            began = time.perf_counter()
            measure()
            times.append((time.perf_counter() - began) * 1000)
    return found


def median_ratio(ones: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def cpu_per_event(measure: Callable[[int], object], few: int = 20_000, many: int = 120_000) -> float:
    """Microseconds of this process's CPU time for one event more: without what a run costs once."""
    took = []
    for number in (few, many):
        began = time.process_time()
        measure(number)
        took.append(time.process_time() - began)
    return (took[1] - took[0]) / (many - few) * 1e6


def peak_memory(number: int) -> float:
    """Megabytes of a process that has carried out a run of so many events."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.sidecar import Flood; "
        "Flood(Path(sys.argv[1])).host(int(sys.argv[2])); "
        "print(next(line for line in Path('/proc/self/status').read_text().splitlines() if 'VmHWM' in line).split()[1])"
    )
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run([sys.executable, "-c", code, name, str(number)], capture_output=True, check=True)
    return int(done.stdout.split()[-1]) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ["TREADLE_HOME"] = os.path.join(name, "home")
        flood = Flood(Path(name))
        cat, plain, host = [], [], []
        for _ in range(ROUNDS):  # interleaved, so that a busy machine affects all three
            cat.append(EVENTS / flood.cat())
            plain.append(EVENTS / flood.plain_loop())
            host.append(EVENTS / flood.host())
        rates = {"cat": cat, "plain json loop": plain, "treadle host": host}
        for label, values in rates.items():
            print(f"{label:16} {statistics.median(values):12,.0f} events/s")
        ratio = median_ratio(host, plain)
        print(f"treadle host / plain json loop: {ratio:.2f}, a mix of 70 % deltas, 20 % tools, 10 % files")
        print(f"treadle host / cat:             {statistics.median(host) / statistics.median(cat):.3f}")
        costs = [(cpu_per_event(flood.plain_loop), cpu_per_event(flood.host)) for _ in range(3)]
        loop, full = (statistics.median(values) for values in zip(*costs, strict=True))
        keeping = cpu_per_event(flood.keeping_loop, few=1_000, many=11_000)
        print(f"CPU for one event more: plain json loop {loop:.1f} us, treadle host {full:.1f} us: {loop / full:.2f}x")
        print(f"a loop that writes events down, without secrets: {keeping:.1f} us: {keeping / full:.2f}x (goal: 2)")
        few, many = (peak_memory(number) for number in (10_000, 1_000_000))
        print(f"memory at its highest: {few:.0f} MB after 10,000 events, {many:.0f} MB after a million")
        firsts = [flood.first_event() for _ in range(9)]
        bare, full = (statistics.median(values) for values in zip(*firsts, strict=True))
        print(f"run line to first event: bare pipe {bare:.2f} ms, control plane {full:.2f} ms, ratio {full / bare:.2f}")
    receipt = big_receipt()
    tree = msgspec.to_builtins(receipt)

    def dump() -> bytes:
        return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    dumped, hashed, ours = interleaved(
        dump, lambda: hashlib.sha256(dump()).hexdigest(), lambda: receipts.receipt_hash(receipt)
    )
    print(f"hash of a receipt with 10,000 events: {statistics.median(ours):.2f} ms")
    print(f"json.dumps(sort_keys) / our whole hash:             {median_ratio(dumped, ours):.2f} (goal: 5)")
    print(f"json.dumps(sort_keys) and SHA-256 / our whole hash: {median_ratio(hashed, ours):.2f}")


if __name__ == "__main__":
    main()
