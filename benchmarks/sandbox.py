"""What confining a command costs, compared with the same command unconfined, both started like the bash tool does.

The confinement is a real one: a git repository, its protected files, one hidden directory, no network.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from treadle.io.sandbox import methods
from treadle.io.sandbox.matches import Matches
from treadle.io.sandbox.places import git_directories, protected_in
from treadle.io.sandbox.start import start
from treadle.session import Confinement

ROUNDS = 60
STARTS = 12
GOAL = 15.0


async def run(walls: Confinement | None, cwd: str) -> float:
    started = time.perf_counter()
    child = await start(walls, ["bash", "-c", "true"], cwd=cwd, env={"PATH": os.environ["PATH"]}, stderr="stdout")
    async with child:
        while await child.stdio.read():
            pass
        await child.wait()
        await child.stop(2.0)
    return (time.perf_counter() - started) * 1000


async def compare(cwd: str) -> None:
    walls = Confinement(
        write=(cwd, *git_directories(cwd)), read_only=protected_in(cwd), hidden=(f"{cwd}/secrets",), network="off"
    )
    taken: dict[str, list[float]] = {"unconfined": [], "confined": []}
    for _ in range(ROUNDS):
        taken["unconfined"].append(await run(None, cwd))
        taken["confined"].append(await run(walls, cwd))
    for name, times in taken.items():
        print(f"{name:12} min {min(times):6.1f} ms   median {statistics.median(times):6.1f} ms")
    least = min(taken["confined"]) - min(taken["unconfined"])
    usual = statistics.median(taken["confined"]) - statistics.median(taken["unconfined"])
    print(f"a confined command costs {least:.1f} ms more at best, {usual:.1f} ms at the median (goal: under {GOAL:g})")


def index() -> None:
    with tempfile.TemporaryDirectory() as root:
        for number in range(1000):
            place = Path(root, f"d{number // 50}", f"e{number}")
            place.mkdir(parents=True)
            for name in range(100):
                (place / f"f{name}").touch()
        matches = Matches([root], lambda path: os.path.basename(path).startswith(".env"))
        for what in ("first look at 100,000 files", "later look"):
            started = time.perf_counter()
            matches.find()
            print(f"{what:28} {(time.perf_counter() - started) * 1000:7.1f} ms")


def starts(cwd: str) -> None:
    """`treadle -p` whose model only answers: the sandbox is made for commands, so it should not slow down the start."""
    Path(cwd, "say.toml").write_text('[[reply]]\ntext = "ok"\n')
    program = str(Path(sys.executable).with_name("treadle"))
    modes = {"full-auto, confined": (), "full-auto, --no-sandbox": ("--no-sandbox",)}
    taken: dict[str, list[float]] = {name: [] for name in modes}
    for _ in range(STARTS):
        for name, more in modes.items():
            argv = [program, "-p", "hi", "--model", f"scripted:{cwd}/say.toml", "--permission-mode", "full-auto", *more]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                argv, cwd=cwd, env={**os.environ, "TREADLE_HOME": f"{cwd}/h"}, check=True, capture_output=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken[name].append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    for name, times in taken.items():
        print(
            f"start of treadle -p, {name:24} CPU min {min(times):6.1f} ms   median {statistics.median(times):6.1f} ms"
        )


def main() -> None:
    found = methods.available()
    print(f"method: {found.method}; load: {os.getloadavg()[0]:.1f}")
    if found.method is None:
        return
    with tempfile.TemporaryDirectory() as cwd:
        subprocess.run(["git", "init", "-q", cwd], check=True)
        os.mkdir(f"{cwd}/secrets")
        asyncio.run(compare(os.path.realpath(cwd)))
        starts(os.path.realpath(cwd))
    index()


if __name__ == "__main__":
    main()
