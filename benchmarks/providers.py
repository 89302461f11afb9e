"""Streamed deltas per second of CPU time, from a socket to ReplyItem, against the plain way to read the same bytes.

The service runs in another process. The plain way is what most clients do: the HTTP library's line iterator and
`json.loads` for each line that begins with `data:`, without using the result. Only the CPU time of this process
counts, so that the service and whatever else runs do not matter.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import httpx2

from treadle.agent.messages import ModelRequest, UserMessage
from treadle.agent.providers.http import HttpProvider
from treadle.agent.providers.names import resolve
from treadle.events import TextDelta

DELTAS = 40_000
ROUNDS = 5
SCRIPT = f"""
[[reply]]
text = "delta "
repeat = {DELTAS}
times = "always"
usage = {{ input = 1, output = {DELTAS} }}
"""
PATHS = {"chat": "/chat/completions", "openai": "/responses", "anthropic": "/messages"}
REQUEST = ModelRequest(system="", messages=(UserMessage(text="go"),))


async def ours(provider: HttpProvider) -> None:
    seen = 0
    async for item in provider.stream(REQUEST):
        if type(item) is TextDelta:
            seen += 1
    assert seen == DELTAS


async def plain(client: httpx2.AsyncClient, url: str) -> None:
    seen = 0
    async with client.stream("POST", url, json={"model": "m", "stream": True, "messages": []}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:") and line != "data: [DONE]":
                seen += bool(json.loads(line[5:]))
    assert seen >= DELTAS


async def rate(run: Callable[..., Awaitable[None]], *args: object) -> float:
    before = time.process_time()
    await run(*args)
    return DELTAS / (time.process_time() - before)


async def compare(base: str, chunks: str) -> None:
    for kind, path in PATHS.items():
        provider = resolve(f"{kind}:m", {"TREADLE_BASE_URL": base})
        assert isinstance(provider, HttpProvider)
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            pairs = [(await rate(ours, provider), await rate(plain, client, base + path)) for _ in range(ROUNDS)]
        await provider.aclose()
        mine, theirs = (sorted(side)[ROUNDS // 2] for side in zip(*pairs, strict=True))
        print(
            f"{kind:10} {chunks:22} {mine:9,.0f} deltas/s   plain {theirs:9,.0f}/s   x{mine / theirs:.1f}", flush=True
        )


def main() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as script:
        script.write(SCRIPT)
        script.flush()
        for flags, chunks in (([], "64 KiB chunks"), (["--unbatched"], "one chunk per event")):
            command = [sys.executable, "-m", "treadle.testing.server", script.name, *flags]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                try:
                    asyncio.run(compare(server.stdout.readline().split()[-1], chunks))
                finally:
                    server.terminate()
