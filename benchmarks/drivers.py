"""What driving an agent costs beyond its own command: time to the first text, memory, and events per second.

First text: the real program (from the cache of `make test-agents`) with a scripted model, used by our driver and by a
bare client that writes the same few lines and does nothing else, in turn, each in its own process. The time is from the
start of the program to the first text; memory is the peak of the process that drives it. Both run the program
unconfined; the cost of a sandbox is shown separately.
Throughput: a recorded conversation with a repeated delta, through a pipe and the driver to a reader, against a loop
that parses the same bytes with the standard json module.

    python -m benchmarks.drivers [--flood | --first] [AGENT ...]
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
ACP = {"gemini": ["--acp"], "opencode": ["acp"], "qwen": ["--acp"], "copilot": ["--acp"], "kimi": ["acp"]}
"""Agents over the Agent Client Protocol, and how each is started."""
DELTAS = {"claude": "text_delta", "codex": "item/agentMessage/delta", "pi": "text_delta"}
DELTAS |= dict.fromkeys(ACP, "agent_message_chunk")
ROUNDS = 5
FLOOD = 100_000


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        asyncio.run(_inside(*sys.argv[2:]))
        return
    from tests.drivers.programs import CACHE

    names = [name for name in sys.argv[1:] if name in DELTAS] or list(DELTAS)
    for name in names if "--first" not in sys.argv else []:
        asyncio.run(_flood(name))
    for name in names if "--flood" not in sys.argv else []:
        if (CACHE / name).exists():
            asyncio.run(_compare(name))
        else:
            print(f"{name}: not in {CACHE}; make test-agents fetches it")


# Throughput...


async def _flood(name: str) -> None:
    from tests.drivers.test_session import replayed

    from treadle.drivers.card import cards
    from treadle.events import TextDelta, TurnEnded
    from treadle.session import Prompt, SessionSpec

    source = HERE / "tests" / "drivers" / name / "recordings" / "text.jsonl"
    entries = [json.loads(line) for line in source.read_text().splitlines()]
    at = next(at for at, entry in enumerate(entries) if DELTAS[name] in json.dumps(entry))
    entries[at]["times"] = FLOOD
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file, tempfile.TemporaryDirectory() as cwd:
        file.write("".join(json.dumps(entry) + "\n" for entry in entries))
        file.flush()
        session = await replayed(cards()[name], file.name).open(SessionSpec.of(cwd=cwd))
        reader, seen = session.events(), 0
        began = time.perf_counter()
        await session.prompt(Prompt(text="[[hello]]"))
        ended = False
        while not ended:
            for event in await reader.batch():
                seen += type(event) is TextDelta
                ended = ended or type(event) is TurnEnded
        ours = time.perf_counter() - began
        await session.close()
    assert seen >= FLOOD
    lines = [json.dumps(entries[at]["line"]).encode()] * FLOOD
    began = time.perf_counter()
    for line in lines:
        json.loads(line)
    theirs = time.perf_counter() - began
    print(
        f"{name:8} {FLOOD / ours:9,.0f} events/s through the driver; json alone {FLOOD / theirs:9,.0f} lines/s "
        f"({theirs / ours:4.2f}x of it)"
    )


# The first piece of text...


async def _compare(name: str) -> None:
    from tests.drivers.programs import PROGRAMS, environment
    from tests.drivers.scenarios import script

    from treadle.testing.server import ModelServer

    taken: dict[str, list[tuple[float, float]]] = {"bare": [], "driver": [], "confined": []}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        async with ModelServer(script(PROGRAMS[name].tools), batch=False) as server:
            home = Path(place)
            (home / "work").mkdir()
            env = environment(name, home, server.url)
            for round in range(ROUNDS + 1):
                for how in taken:
                    got = await _run(name, how, env, home / "work")
                    if round:  # the first round warms the caches
                        taken[how].append(got)
    (bare, bare_mb), (ours, ours_mb), (confined, _) = (
        [statistics.median(values) for values in zip(*taken[how], strict=True)] for how in taken
    )
    print(
        f"{name:8} first text after {ours * 1000:6.0f} ms, bare client {bare * 1000:6.0f} ms: "
        f"{(ours - bare) * 1000:+5.0f} ms ({ours / bare:4.2f}x), in a sandbox {(confined - bare) * 1000:+5.0f} ms; "
        f"memory {ours_mb:5.1f} MB, bare {bare_mb:5.1f} MB"
    )


async def _run(name: str, how: str, env: dict[str, str], cwd: Path) -> tuple[float, float]:
    from tests.drivers.programs import install

    program = str(install(name) / name)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.drivers", "--inside", name, how, program, json.dumps(env), str(cwd)),
        cwd=HERE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    seconds, megabytes = json.loads(out.splitlines()[-1])
    return seconds, megabytes


async def _inside(name: str, how: str, program: str, environ: str, cwd: str) -> None:
    """Runs in a process of its own: the bare client imports nothing but the standard library."""
    env = json.loads(environ)
    seconds = await (_bare(name, program, env, cwd) if how == "bare" else _driver(name, how, program, env, cwd))
    # Not ru_maxrss, which a process inherits from the one that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([seconds, int(peak.split()[1]) / 1024]))


async def _driver(name: str, how: str, program: str, env: dict[str, str], cwd: str) -> float:
    from treadle.agents import _load
    from treadle.drivers.card import cards, launch_of
    from treadle.events import TextDelta
    from treadle.io.process import tree
    from treadle.session import Prompt, SessionSpec
    from treadle.settings.config import AgentSettings

    tree.own.begin()  # as find_agent does, before the driver is imported
    card = cards()[name]
    settings = AgentSettings(command=program)
    agent = _load(card.driver)(card, launch_of(card, settings), environ=env)
    began = time.perf_counter()
    session = await agent.open(
        SessionSpec.of(cwd=cwd, mode="full-auto" if how == "confined" else "suggest", persist=False)
    )
    reader = session.events()
    await session.prompt(Prompt(text="[[hello]]"))
    async for event in reader:
        if type(event) is TextDelta:
            break
    taken = time.perf_counter() - began
    await session.close()
    return taken


async def _bare(name: str, program: str, env: dict[str, str], cwd: str) -> float:
    arguments = {
        "claude": ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
        + ["--include-partial-messages", "--no-session-persistence"],
        "codex": ["app-server"],
        "pi": ["--mode", "rpc", "--no-session"],
        **ACP,
    }[name]
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(program, *arguments),
        env=env,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 26,
    )
    assert process.stdin is not None and process.stdout is not None

    async def say(**line: Any) -> None:
        process.stdin.write(json.dumps(line).encode() + b"\n")  # type: ignore[union-attr]

    async def hear(*words: str) -> Any:
        while line := await process.stdout.readline():  # type: ignore[union-attr]
            if all(word.encode() in line for word in words):
                return json.loads(line)

    if name == "claude":
        await say(type="control_request", request_id="1", request={"subtype": "initialize"})
        await hear("control_response")
        await say(type="user", message={"role": "user", "content": "[[hello]]"}, session_id="")
    elif name == "codex":
        await say(id=1, method="initialize", params={"clientInfo": {"name": "bare", "version": "1"}})
        await hear('"id":1')
        await say(method="initialized")
        await say(id=2, method="thread/start", params={"cwd": cwd, "ephemeral": True})
        thread = (await hear('"id":2'))["result"]["thread"]["id"]
        await say(
            id=3, method="turn/start", params={"threadId": thread, "input": [{"type": "text", "text": "[[hello]]"}]}
        )
    elif name in ACP:
        await say(jsonrpc="2.0", id=1, method="initialize", params={"protocolVersion": 1, "clientCapabilities": {}})
        await hear('"id":1')
        await say(jsonrpc="2.0", id=2, method="session/new", params={"cwd": cwd, "mcpServers": []})
        session = (await hear('"id":2'))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "[[hello]]"}]}
        await say(jsonrpc="2.0", id=3, method="session/prompt", params=prompt)
    else:
        await say(id="1", type="get_state")
        await hear('"response"')
        await say(id="2", type="prompt", message="[[hello]]")
    await hear(DELTAS[name])
    taken = time.perf_counter() - began
    process.stdin.close()
    await process.wait()
    return taken


if __name__ == "__main__":
    main()
