"""What the loop costs: streamed deltas per second, and time per turn, through a real HTTP provider, the loop and
events.

Another process serves the scripted model. The peer is a bare loop that reads the same response from the same server and
calls json.loads on every event: the least that any client in Python does.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from treadle import SessionSpec, find_agent, run_turn
from treadle.events import TextDelta

DELTAS = 100_000
TURNS = 200
SCRIPT = f"""
[[reply]]
when = "long"
times = "always"
text = "word "
repeat = {DELTAS}
piece = 5
usage = {{ input = 10, output = 10 }}

[[reply]]
times = "always"
text = "short"
usage = {{ input = 10, output = 10 }}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "script.toml"
        script.write_text(SCRIPT)
        server = subprocess.Popen(
            [sys.executable, "-m", "treadle.testing.server", str(script)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1].rstrip("/")
            for vendor in ("chat", "openai", "anthropic"):
                asyncio.run(_measure(vendor, url, place))
            _plain(url)
        finally:
            server.terminate()
            server.wait()


async def _measure(vendor: str, url: str, place: str) -> None:
    env = {"TREADLE_BASE_URL": url, "TREADLE_API_KEY": "none"}
    spec = SessionSpec.of(cwd=place, model=f"{vendor}:m", env=env, persist=False)
    session = await find_agent("native").open(spec)
    async for _ in run_turn(session, "warm up"):
        pass
    cpu, started, count = time.process_time(), time.perf_counter(), 0
    async for event in run_turn(session, "a long one"):
        count += isinstance(event, TextDelta)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert count == DELTAS, count
    print(f"{vendor:10} {count / wall:10,.0f} deltas/s   {count / cpu:10,.0f} per CPU second   (goal: 20,000)")
    started = time.perf_counter()
    for _ in range(TURNS):
        async for _ in run_turn(session, "short"):
            pass
    print(f"{vendor:10} {(time.perf_counter() - started) / TURNS * 1000:10.2f} ms per turn of one small reply")
    await session.close()


def _plain(url: str) -> None:
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "a long one"}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"content-type": "application/json"})
    started, count = time.perf_counter(), 0
    with urllib.request.urlopen(request) as response:
        for line in response:
            if line.startswith(b"data: {"):
                count += bool(json.loads(line[6:])["choices"])
    print(f"{'plain':10} {count / (time.perf_counter() - started):10,.0f} events/s by urllib and json.loads, no loop")


if __name__ == "__main__":
    main()
