"""Run one command in a sandbox as the user nobody, all of it by `start`: `python as_nobody.py ROOM.json COMMAND`.

To be started by `argv`. Root becomes that user: where the interpreter or our code lies below a directory that only root
can enter, a mount namespace of its own has that directory open. Any other user stays who it is.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from treadle.io.sandbox.start import start
from treadle.session import Confinement

NO_ID = 65534
ENV = {"PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}
"""With the interpreter itself first: what stands in front of it on a developer's machine can be slow."""
BECOME = """
import os, sys
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Before anything of ours is loaded: a module that starts a program when it is imported would do so as root, and what
keeps it, and later starts others, would stay root."""
SELF_PID = "PID_OF_THE_STARTER"
"""In the command: the number of the process that starts the sandbox, which is no one's too."""


def argv(room: Confinement, command: str, *shown: Path) -> list[str]:
    program = [sys.executable, __file__, msgspec.json.encode(room).decode(), command]
    return opened_for(program, *shown)


def opened_for(program: list[str], *shown: Path) -> list[str]:
    """`shown` are the places that no one has to reach, beside the interpreter and our code."""
    if os.geteuid() != 0:
        return program
    program = [sys.executable, "-I", "-S", "-c", BECOME, str(NO_ID), *program]
    places = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2], *shown]
    needed = [place.resolve() for place in places]
    opened: list[str] = []
    for closed in dict.fromkeys(filter(None, map(closed_ancestor, needed))):
        opened += ["--perms", "0755", "--tmpfs", str(closed)]
        for place in sorted(needed):
            if closed in place.parents:
                between = [one for one in reversed(place.parents) if closed in one.parents]
                opened += [word for one in between for word in ("--perms", "0755", "--dir", str(one))]
                opened += ["--dev-bind", str(place), str(place)]
    return ["bwrap", "--dev-bind", "/", "/", *opened, "--", *program] if opened else program


def closed_ancestor(place: Path) -> Path | None:
    """The first directory on the way that others cannot enter."""
    return next((one for one in [*reversed(place.parents), place] if not one.stat().st_mode & 0o001), None)


@contextmanager
def room() -> Iterator[Path]:
    """A directory of that user."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        if os.geteuid() == 0:
            os.chown(base, NO_ID, NO_ID)
        os.chmod(base, 0o755)
        yield Path(base)


def as_another(base: Path, program: list[str]) -> dict[str, list[str]]:
    """What a Python program of our tests prints as JSON when that user runs it."""
    more = {"HOME": str(base), "TREADLE_HOME": str(base / "state")}
    return _printed(opened_for([sys.executable, *program], base), more, base)


def with_landlock(base: Path, program: list[str]) -> dict[str, list[str]]:
    """The same as this user, on a machine without bubblewrap."""
    from tests.machines import path_without  # as a program, this module has only its own directory on the path

    more = {"PATH": path_without("bwrap", base / "programs"), "TREADLE_HOME": str(base / "state")}
    return _printed([sys.executable, *program], more, base)


def _printed(argv: list[str], more: dict[str, str], cwd: Path) -> dict[str, list[str]]:
    env = {**os.environ, **more, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


async def run(walls: Confinement, command: str) -> int:
    child = await start(walls, ["bash", "-c", command], cwd=walls.write[0], env=ENV, stderr="stdout")
    async with child:
        while data := await child.stdio.read():
            os.write(1, data)
        return await child.wait()


def main(room: str, command: str) -> int:
    walls = msgspec.json.decode(room, type=Confinement)
    return asyncio.run(run(walls, command.replace(SELF_PID, str(os.getpid()))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
