"""What confining a command costs, compared with the same command unconfined, both started like the bash tool does.

The confinement is a real one: a git repository, its protected files, one hidden directory, no network.
"""

import asyncio
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from treadle.io.paths import DISK
from treadle.io.sandbox import methods
from treadle.io.sandbox.places import Matches
from treadle.io.sandbox.start import start
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Rules

ROUNDS = 60
STARTS = 12
GOAL = 8.0
BARE = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/"),
    *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind"),
)
"""The usual walls, by hand: nothing hidden, no repository of its own, no limits."""


async def run(walls: Confinement | None, cwd: str, command: str = "true") -> float:
    started = time.perf_counter()
    child = await start(walls, ["bash", "-c", command], cwd=cwd, env={"PATH": os.environ["PATH"]}, stderr="stdout")
    async with child:
        while await child.stdio.read():
            pass
        await child.wait()
        await child.stop(2.0)
    return (time.perf_counter() - started) * 1000


async def around(confining: Confining, cwd: str, command: str = "true") -> float:
    """A command as the agent runs it: its repository follows the user's before, and the user's follows it after."""
    started = time.perf_counter()
    await confining.ready(print)
    walls = confining.now()
    took = await run(walls, cwd, command)
    await confining.sealing.settle()
    return (time.perf_counter() - started) * 1000 if command != STATUS else took


def of(cwd: str) -> Confining:
    confining = Confining(cwd, (), Confinement(use="on", network="off"), session=f"benchmark-{os.getpid()}")
    confining.obey(RuleSet(Rules(deny=("Read(secrets/**)",)), cwd, DISK), None)
    return confining


async def compare(cwd: str) -> None:
    confining = of(cwd)
    began = time.perf_counter()
    confining.now()
    print(f"a private repository is made in {(time.perf_counter() - began) * 1000:.1f} ms, once for a session")
    taken: dict[str, list[float]] = {"unconfined": [], "bubblewrap": [], "confined": []}
    for _ in range(ROUNDS):
        taken["unconfined"].append(await run(None, cwd))
        taken["bubblewrap"].append(await run(None, cwd, shlex.join([*BARE, cwd, cwd, "--chdir", cwd, "true"])))
        taken["confined"].append(await around(confining, cwd))
    for name, times in taken.items():
        print(f"{name:12} min {min(times):6.1f} ms   median {statistics.median(times):6.1f} ms")
    least = min(taken["confined"]) - min(taken["unconfined"])
    usual = statistics.median(taken["confined"]) - statistics.median(taken["unconfined"])
    print(f"a confined command costs {least:.1f} ms more at best, {usual:.1f} ms at the median (goal: under {GOAL:g})")
    ratio = statistics.median(taken["confined"]) / statistics.median(taken["bubblewrap"])
    print(f"that is {ratio:.1f}x of the same command in bubblewrap with one writable directory (goal: at most 2)")
    confining.close()


STATUS = f"for i in {' '.join(map(str, range(10)))}; do git status > /dev/null; done"


async def status(cwd: str) -> None:
    """`git status` in a checkout of 5,000 files, inside and outside: ten at a time, without the sandbox's start."""
    for number in range(5000):
        place = Path(cwd, f"d{number // 50}")
        place.mkdir(exist_ok=True)
        (place / f"f{number}").write_text(str(number))
    commit(cwd)
    confining = of(cwd)
    empty = [await run(confining.now(), cwd) - await run(None, cwd) for _ in range(10)]
    inside, outside = [], []
    for _ in range(15):
        inside.append(await around(confining, cwd, STATUS) - statistics.median(empty))
        outside.append(await run(None, cwd, STATUS))
    ratio = statistics.median(inside) / statistics.median(outside)
    print(f"git status, 5,000 files: {statistics.median(outside) / 10:.1f} ms outside, {ratio:.2f} times that inside")
    one = time.perf_counter()
    await run(confining.now(), cwd, "echo x > d1/f50; git -c user.name=a -c user.email=a@b commit -qam x")
    made = time.perf_counter()
    await confining.sealing.settle()
    print(f"a commit takes {(made - one) * 1000:.0f} ms; to take it over {(time.perf_counter() - made) * 1000:.0f} ms")
    confining.close()


def commit(cwd: str) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", cwd]
    for words in (["add", "."], ["commit", "-qm", "files"]):
        subprocess.run([*git, *words], check=True)


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
        asyncio.run(status(os.path.realpath(cwd)))
        starts(os.path.realpath(cwd))
    index()


if __name__ == "__main__":
    main()
