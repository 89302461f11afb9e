"""What the gateway before a model service costs, beside the same calls without it. Goals: the first byte 5 ms later
(median of 200), 3 % of throughput at 50 streams, 1 MB for each stream, a reply of 200 MB with flat memory; 20 runs on
an account that its service limits are refused less often than without a gateway, and are not slower.

Service, gateways and client are three processes. The 50 streams come as a model's do: 80 events a second each. The
limit is a bucket of 18 calls that gets 18 a second; who comes too early is told to wait for one second, and does.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

from treadle.events import Usage
from treadle.gateway.governor import AccountGovernor
from treadle.gateway.server import ModelGateway, Upstream
from treadle.gateway.spending import Spending
from treadle.io.http import HttpClient
from treadle.session import Limits

TOKEN = "treadle-run-benchmark"
CALLS, STREAMS, EVENTS, PACE = 200, 50, 400, 80
LARGE = 200 << 20
RUNS, EACH, RATE = 20, 12, 18
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}"
EVENT = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words "}}\n\n'
LAST = b'data: {"type":"message_delta","usage":{"input_tokens":1,"output_tokens":2}}\n\n'
LAST += b'data: {"type":"message_stop"}\n\n'


class _Bucket:
    left, at, refused, calls = float(RATE), time.monotonic(), 0, 0

    def empty(self) -> bool:
        now = time.monotonic()
        self.left, self.at = min(RATE, self.left + (now - self.at) * RATE), now
        self.calls += 1
        self.refused += self.left < 1
        if self.left < 1:
            return True
        self.left -= 1
        return False


BUCKET = _Bucket()


async def _service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            if b"/limited/" in head and BUCKET.empty():
                writer.write(REFUSED)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            await _body(head, writer)
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(LAST), LAST))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _body(head: bytes, writer: asyncio.StreamWriter) -> None:
    piece = EVENT
    if b"/large/" in head:
        piece = EVENT * (65536 // len(EVENT))
        for _ in range(LARGE // len(piece)):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
    elif b"/paced/" in head:
        began = time.monotonic()
        for number in range(EVENTS):
            await asyncio.sleep(max(0.0, began + number / PACE - time.monotonic()))
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    else:
        await asyncio.sleep(0.1 if b"/limited/" in head else 0)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))


async def _serve() -> None:
    async with await asyncio.start_server(_service, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(BUCKET.refused, BUCKET.calls, flush=True)


async def _gate(url: str) -> None:
    def unknown(usage: Usage) -> float | None:
        return None

    with tempfile.TemporaryDirectory() as place:
        upstream = Upstream(base_url=url, secrets={TOKEN: "key"})
        for _ in range(RUNS):
            governor = AccountGovernor("service", "key", place=place)
            gateway = ModelGateway(upstream, Spending(Limits(), unknown), governor, apart=False)
            await gateway.start()
            print(gateway.url.rpartition(":")[2], flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            used = resource.getrusage(resource.RUSAGE_SELF)
            print(used.ru_maxrss, used.ru_utime + used.ru_stime, flush=True)


async def _call(client: HttpClient, url: str, path: str) -> tuple[float, float, int]:
    """Seconds to the first byte and to the end, and how many bytes came."""
    began, first, size = time.perf_counter(), 0.0, 0
    async with client.request("POST", f"{url}/{path}/v1/messages", b'{"model":"m"}', {"x-api-key": TOKEN}) as answer:
        async for chunk in answer.raw():
            first = first or time.perf_counter() - began
            size += len(chunk)
    return first, time.perf_counter() - began, size


def _asked(of: subprocess.Popen[str]) -> tuple[float, float]:
    """The two numbers that a process has."""
    assert of.stdin is not None and of.stdout is not None
    of.stdin.write("\n")
    of.stdin.flush()
    one, other = of.stdout.readline().split()
    return float(one), float(other)


async def _run(client: HttpClient, url: str) -> None:
    """The calls of one run. Like the vendors' clients it waits as it is told when it is refused."""
    for _ in range(EACH):
        while True:
            given = client.request("POST", f"{url}/limited/v1/messages", b'{"model":"m"}', {"x-api-key": TOKEN})
            async with given as answer:
                async for _chunk in answer.raw():
                    pass
            if answer.status == 200:
                break
            await asyncio.sleep(float(answer.headers["retry-after"]))


async def _limit(client: HttpClient, direct: str, gates: list[str], service: subprocess.Popen[str]) -> None:
    for name, urls in (("without", [direct] * RUNS), ("with", gates)) * 2:
        (refused, calls), began = _asked(service), time.perf_counter()
        await asyncio.gather(*(_run(client, url) for url in urls))
        took, (after, all_calls) = time.perf_counter() - began, _asked(service)
        print(
            f"{RUNS} runs on a limited account, {name} governors: {took:.1f} s, "
            f"{after - refused:.0f} of {all_calls - calls:.0f} calls refused"
        )
        await asyncio.sleep(1.5)  # the bucket is full again


async def _compare(direct: str, gates: list[str], gate: subprocess.Popen[str], service: subprocess.Popen[str]) -> None:
    gated = gates[0]
    client = HttpClient({}, connect_seconds=10, idle_seconds=60, direct=True)
    firsts: dict[str, list[float]] = {direct: [], gated: []}
    for _ in range(CALLS + 5):
        for url, seen in firsts.items():
            seen.append((await _call(client, url, "small"))[0] * 1000)
    alone, through = (statistics.median(seen[5:]) for seen in firsts.values())
    print(
        f"first byte, median of {CALLS}: {through:.2f} ms, without {alone:.2f} ms, +{through - alone:.2f} ms (goal: 5)"
    )
    before, spent = _asked(gate)
    taken: dict[str, list[float]] = {}
    for url in (direct, gated, direct, gated):
        began = time.perf_counter()
        await asyncio.gather(*(_call(client, url, "paced") for _ in range(STREAMS)))
        taken.setdefault(url, []).append(time.perf_counter() - began)
    alone, through = (statistics.mean(seen) for seen in taken.values())
    after, used = _asked(gate)
    more = through / alone * 100 - 100
    print(f"{STREAMS} streams at once: {through:.2f} s, without {alone:.2f} s: {more:+.1f} % (goal: 3)")
    each = (after - before) / 1024 / STREAMS
    events = 2 * STREAMS * EVENTS
    print(f"memory for each: {each:.2f} MB (goal: 1); processor {1e6 * (used - spent) / events:.0f} us for each event")
    _, seconds, size = await _call(client, gated, "large")
    largest, _ = _asked(gate)
    print(f"a reply of {size >> 20} MB: {size / seconds / 1e6:.0f} MB/s, memory {(largest - after) / 1024:+.1f} MB")
    await _limit(client, direct, gates, service)
    await client.aclose()


def main() -> None:
    with ExitStack() as stack:

        def started(*words: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "benchmarks.gateway", *words]
            made = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(made.kill)
            return made

        def url(of: subprocess.Popen[str]) -> str:
            assert of.stdout is not None
            return f"http://127.0.0.1:{of.stdout.readline().strip()}"

        service = started("serve")
        direct = url(service)
        gate = started("gate", direct)
        asyncio.run(_compare(direct, [url(gate) for _ in range(RUNS)], gate, service))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve())
    elif sys.argv[1:2] == ["gate"]:
        asyncio.run(_gate(sys.argv[2]))
    else:
        main()
