"""Gives several orchestrators of coding agents the same tasks and the same faults, and counts what became of them.

`python -m benchmarks.crash [--whole] [--seeds N] PEER...` runs the orchestrators in turn and prints a table.
"""

import argparse
import asyncio
import importlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from tests.drivers.programs import PROGRAMS

from benchmarks.crash import faults, tasks
from benchmarks.crash.judge import HEADS, Statements, judge
from benchmarks.crash.peers import AGENTS, Peer, Place
from benchmarks.crash.processes import Watch
from benchmarks.crash.tasks import Task

PEERS = ("serial", "worktrees", "background", "bernstein", "treadle")
LOOK_SECONDS = 0.5
ASK_SECONDS = 3.0
"""Between two looks at what the orchestrator says."""
CALM_SECONDS = 20.0
"""How long it has to come back before a person looks again."""
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "crash-test.md"
BEGIN, END = "<!-- crash test -->", "<!-- end of crash test -->"


def say(text: str) -> None:
    print(text, flush=True)


def is_agent(words: str) -> bool:
    """The agent program, and not what an orchestrator runs around it."""
    return any(Path(word).name in AGENTS for word in words.split(" ")[:2])  # codex is started by node


async def run(name: str, given: argparse.Namespace, seed: int, count: int) -> dict[str, Any]:
    """One orchestrator, once. What it needs is on a disk of its own; the log and the judge's files are beside it."""
    work = tasks.WHOLE if given.whole else tasks.SHORT
    top, beside = Path(tempfile.mkdtemp(prefix="crash-")), Path(tempfile.mkdtemp(prefix="judge-"))
    disk = faults.Disk(top)
    root, home = top / "work" / "shop", top / "home"
    for folder in (root, home):
        folder.mkdir(parents=True)
    base = tasks.make_repository(root)
    wrong = faults.of_model(seed, 10_000) if count else []
    async with tasks.Model(work, wrong, PROGRAMS[given.agent].tools) as model:
        place = Place(home, root, given.agent, model.url, beside / "log")
        peer: Peer = importlib.import_module(f"benchmarks.crash.peers.{name}").Here(place)
        version = await asyncio.to_thread(peer.version)
        if not version:
            disk.remove()
            return {"peer": name, "why": "it is not installed here"}
        say(f"{peer.name} {version}, seed {seed}, {count} faults: {top}, {beside}")
        bad = faults.Faults(faults.schedule(seed, count, given.every), root, disk, say)
        watch, said = Watch(top), Statements(root, work, beside)
        acts, seconds = await drive(peer, work, bad, watch, said, given.limit)
        reported = await asyncio.to_thread(peer.reported)
        await asyncio.to_thread(peer.stop)
        await asyncio.sleep(2)
        left = watch.look()
        found = judge(
            *(root, base, work),
            reported=reported,
            persons=bad.persons,
            processes=[one.words for one in left],
            scratch=beside,
        )
        for one in left:
            one.kill()
        served = wrong[: len(model.asked)]
        by_model = len(served) - served.count(None)
        (beside / "requests").write_text("".join(json.dumps(one.body) + "\n" for one in model.requests))
        result = {
            "peer": peer.name,
            "version": version,
            "agent": given.agent,
            "seed": seed,
            "tasks": len(work),
            "seconds": round(seconds),
        }
        result |= {"faults": bad.done | {"model": by_model}, "acts": acts, "tokens": model.tokens}
    disk.remove()
    result |= {"wrong_at": said.first_wrong, "verdict": vars(found), "row": found.row, "log": str(beside)}
    say(json.dumps(result, default=list))
    if given.discard:
        for folder in (top, beside):
            shutil.rmtree(folder, ignore_errors=True)
    return result


async def drive(
    peer: Peer, work: tuple[Task, ...], bad: faults.Faults, watch: Watch, said: Statements, limit: float
) -> tuple[int, float]:
    """From the tasks' submission until the orchestrator says that nothing is left to do: a person's acts, seconds."""
    await asyncio.to_thread(peer.submit, work)
    began, acts = time.monotonic(), 0
    asked, resumed = began, began - CALM_SECONDS
    while (now := time.monotonic()) - began < limit:
        bad.due(now - began, watch.look(), is_agent)
        await asyncio.sleep(LOOK_SECONDS)
        if now - asked < ASK_SECONDS:
            continue
        asked = now
        if now - resumed >= CALM_SECONDS and await asyncio.to_thread(peer.needs_a_person):
            acts, resumed = acts + 1, now
            say("a person starts it again")
            await asyncio.to_thread(peer.resume)
        elif await asyncio.to_thread(peer.over):
            break
        said.look(time.monotonic() - began, await asyncio.to_thread(peer.reported))
    seconds = time.monotonic() - began
    said.look(seconds, await asyncio.to_thread(peer.reported))
    return acts, seconds


def table(results: list[dict[str, Any]]) -> str:
    """Two rows for each orchestrator, without faults and with: medians over the seeds, and the range where they differ.
    What landed in an hour is a ratio to the serial loop without faults."""
    heads = ("orchestrator", "faults", *HEADS, "acts", "1,000 tokens", "pace", "first wrong, s")
    lines = [f"|{'|'.join(heads)}|", "|---" * len(heads) + "|"]
    groups: dict[tuple[str, str, str, bool], list[dict[str, Any]]] = {}
    for one in results:
        if "row" in one:
            groups.setdefault((one["peer"], one["version"], one["agent"], one["seed"] > 0), []).append(one)
    calm = (one for one in results if one["peer"] == "serial loop" and not one["seed"])
    serial = {one["agent"]: _pace(one) for one in calm}
    for (name, version, agent, _), runs in groups.items():
        cells = [_range(sum(one["faults"].values()) for one in runs)]
        cells += [_range(column) for column in zip(*(one["row"] for one in runs), strict=True)]
        cells += [_range(one["acts"] for one in runs), _range(one["tokens"] // 1000 for one in runs)]
        pace = serial.get(agent)
        cells += [_range(round(_pace(one) / pace, 2) for one in runs) + "x" if pace else "-"]
        wrong = [round(one["wrong_at"]) for one in runs if one["wrong_at"] is not None]
        lines.append(
            "| " + " | ".join([f"{name} {version}, {agent}", *cells, _range(wrong) if wrong else "never"]) + " |"
        )
    return "\n".join(lines)


def _pace(result: dict[str, Any]) -> float:
    return len(result["verdict"]["landed"]) * 3600 / max(1, result["seconds"])


def _range(values: Iterable[float]) -> str:
    found = sorted(values)
    middle = statistics.median_low(found)
    return f"{middle:g}" if found[0] == found[-1] else f"{middle:g} ({found[0]:g}-{found[-1]:g})"


def write(results: list[dict[str, Any]], command: str) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    made = f"Made on {date.today()} by `{command}`.\n\n{table(results)}"
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("peers", nargs="*", default=PEERS)
    parser.add_argument("--whole", action="store_true", help="twenty tasks, not six")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--faults", type=int, default=7, help="besides those of the model; a run without comes first")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between faults")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one run")
    parser.add_argument("--agent", choices=AGENTS, default="claude")
    parser.add_argument(
        "--out", default="", help="add the results to this file, and make the table from all that it has"
    )
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--discard", action="store_true", help="remove the repositories and logs of the runs")
    given = parser.parse_args()
    results = []
    for name in given.peers:
        for seed, count in [(0, 0), *((seed, given.faults) for seed in range(1, given.seeds + 1))]:
            results.append(asyncio.run(run(name, given, seed, count)))
            if given.out:
                with open(given.out, "a") as out:
                    out.write(json.dumps(results[-1], default=list) + "\n")
    if given.out:
        results = [json.loads(line) for line in Path(given.out).read_text().splitlines()]
    if given.write:
        write(results, " ".join(["python -m benchmarks.crash", *sys.argv[1:]]))
    say(table(results))


if __name__ == "__main__":
    main()
