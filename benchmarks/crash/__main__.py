"""Runs the crash test and prints its table: `python -m benchmarks.crash [--whole] [--seeds N] [--faults N] PEER...`."""

import argparse
import asyncio
import importlib
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.drivers.programs import install

from benchmarks.crash import faults, tasks
from benchmarks.crash.judge import HEADS, judge
from benchmarks.crash.peers import Peer, Place
from benchmarks.crash.processes import Watch

PEERS = ("serial", "worktrees", "treadle")
LOOK_SECONDS = 0.5


def say(text: str) -> None:
    print(text, flush=True)


def is_agent(words: str) -> bool:
    """The agent program, and not what an orchestrator runs around it."""
    first = words.split(" ")[0]
    return first.endswith("/claude") or "claude-code/cli" in words.split(" -")[0] or first == "claude"


async def run(name: str, given: argparse.Namespace, seed: int, count: int) -> dict[str, Any]:
    """One orchestrator, once."""
    work = tasks.WHOLE if given.whole else tasks.SHORT
    top = Path(tempfile.mkdtemp(prefix="crash-"))
    root, home = top / "work" / "shop", top / "home"
    for folder in (root, home, top / "judge"):
        folder.mkdir(parents=True)
    base = tasks.make_repository(root)
    wrong = faults.of_model(seed, 10_000) if count else []
    async with tasks.Model(work, wrong) as model:
        place = Place(home, root, install("claude"), model.url, top / "log")
        peer: Peer = importlib.import_module(f"benchmarks.crash.peers.{name}").Here(place)
        version = await asyncio.to_thread(peer.version)
        if not version:
            return {"peer": name, "why": "it is not installed here"}
        say(f"{peer.name} {version}, seed {seed}, {count} faults: {top}")
        bad = faults.Faults(faults.schedule(seed, count, given.every), root, say)
        watch, acts = Watch(top), 0
        await asyncio.to_thread(peer.submit, work)
        began = time.monotonic()
        while time.monotonic() - began < given.limit:
            bad.due(time.monotonic() - began, watch.look(), is_agent)
            await asyncio.sleep(LOOK_SECONDS)
            if await asyncio.to_thread(peer.needs_a_person):
                acts += 1
                say("a person starts it again")
                await asyncio.to_thread(peer.resume)
            elif await asyncio.to_thread(peer.over):
                break
        seconds = time.monotonic() - began
        reported = await asyncio.to_thread(peer.reported)
        await asyncio.to_thread(peer.stop)
        await asyncio.sleep(2)
        left = watch.look()
        found = judge(
            root,
            base,
            work,
            reported=reported,
            persons=bad.persons,
            processes=[one.words for one in left],
            scratch=top / "judge",
        )
        for one in left:
            one.kill()
        requests = len(model.requests)
        (top / "requests").write_text("".join(json.dumps(one.body) + "\n" for one in model.requests))
    result = {"peer": peer.name, "version": version, "seed": seed, "faults": bad.done, "seconds": round(seconds)}
    result |= {"acts": acts, "requests": requests, "verdict": vars(found), "row": found.row, "log": str(top)}
    say(json.dumps(result, default=list))
    if given.discard:
        shutil.rmtree(top, ignore_errors=True)
    return result


def table(results: list[dict[str, Any]]) -> str:
    """A row for each run: the counts of the judge, acts of a person, requests to the model, time."""
    heads = ("orchestrator", "faults", *HEADS, "acts of a person", "model requests", "seconds")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in results:
        if "row" in one:
            cells = [f"{one['peer']} {one['version']}", sum(one["faults"].values()), *one["row"]]
            cells += [one["acts"], one["requests"], one["seconds"]]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("peers", nargs="*", default=PEERS)
    parser.add_argument("--whole", action="store_true", help="twenty tasks, not six")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--faults", type=int, default=6, help="besides those of the model; a run without comes first")
    parser.add_argument("--every", type=float, default=12.0, help="seconds between faults")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one run")
    parser.add_argument("--out", default="", help="write all results here, in JSON lines")
    parser.add_argument("--discard", action="store_true", help="remove the repositories and logs of the runs")
    given = parser.parse_args()
    results = []
    for name in given.peers:
        for seed, count in [(0, 0), *((seed, given.faults) for seed in range(1, given.seeds + 1))]:
            results.append(asyncio.run(run(name, given, seed, count)))
            if given.out:
                with open(given.out, "a") as out:
                    out.write(json.dumps(results[-1], default=list) + "\n")
    say(table(results))


if __name__ == "__main__":
    main()
