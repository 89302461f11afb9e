"""Whoever of ours is killed, at whatever moment, nothing confined goes on: what had not begun never begins."""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from treadle.io.process import table
from treadle.io.sandbox import methods

STARTS = """
import asyncio, os, sys
from treadle.io.sandbox.start import start
from treadle.session import Confinement

workspace, mark = sys.argv[1:]
command = "trap '' TERM HUP INT; (setsid sleep 1000 &) ; while :; do date >> beat; sleep 0.01; done"

async def one(walls):
    child = await start(walls, ["bash", "-c", command, mark], cwd=workspace, env={"PATH": os.environ["PATH"]})
    await child.wait()

async def main():
    walls = Confinement(write=(workspace,))
    await asyncio.wait([asyncio.create_task(one(walls)) for _ in range(4)])

print("go", flush=True)
asyncio.run(main())
"""
ROUNDS = 4


def marked(mark: str) -> list[int]:
    """The processes whose command line has the mark: the commands, and what wraps them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if mark.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue  # gone meanwhile
    return found


def kill(pids: list[int]) -> None:
    """At once: none of them sees another die and does something about it."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def victims(program: int, whom: str) -> list[int]:
    tree = table.descendants(program)
    if whom == "the wrappers":
        return [one.pid for one in tree if one.name == "bwrap"]
    ours = [one.pid for one in tree if one.name not in ("bwrap", "bash", "sh", "sleep", "date")]
    return [program, *ours] if whom == "everything of ours at once" else [program]


if methods.available().method == "bubblewrap":

    @pytest.mark.slow
    @pytest.mark.parametrize("whom", ["the program", "everything of ours at once", "the wrappers"])
    def test_killed_while_sandboxes_are_set_up_or_at_work_nothing_is_left(tmp_path: Path, whom: str) -> None:
        chance = random.Random(whom)
        for number in range(ROUNDS):
            mark = f"mark-{uuid.uuid4().hex}"
            argv = [sys.executable, "-c", STARTS, str(tmp_path), mark]
            with subprocess.Popen(argv, stdout=subprocess.PIPE) as program:
                assert program.stdout is not None and program.stdout.readline() == b"go\n"
                if number % 3 == 0:
                    (tmp_path / "beat").unlink(missing_ok=True)
                    soon = time.monotonic() + 60
                    while not (tmp_path / "beat").exists() and time.monotonic() < soon:
                        time.sleep(0.001)
                else:
                    time.sleep(chance.uniform(0, 0.3))  # the moment is the point: any will do
                kill(victims(program.pid, whom))
                kill([program.pid])
            deadline = time.monotonic() + 60
            while left := marked(mark):
                assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_bytes()[:200] for pid in left]
                time.sleep(0.01)
