"""Runs a script where an agent's programs run: a git of the agent's repository can run what the agent has set up."""

import asyncio
import os
from collections.abc import Mapping

from msgspec.structs import replace

from treadle.errors import LocalError, TimedOut
from treadle.io import opening, scratch
from treadle.io.files import read_at_most
from treadle.io.sandbox.start import start
from treadle.io.stopping import at_most
from treadle.io.within import within
from treadle.session import Confinement, Mount

LOOK_SECONDS = 15.0
"""For a look at the agent's repository: all that a person waits for after they have stopped a run."""
INSIDE_SECONDS = 60.0
"""For what moves objects or refs."""
LARGEST = 1 << 30
"""Bytes of what comes out at once; larger work stays where it is, and that is reported."""
ROOM = "/run/treadle"


async def run_inside(
    walls: Confinement, cwd: str, script: str, given: Mapping[str, bytes], env: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Run a shell script behind these walls, without the network. It finds `given` as files in /run/treadle/in; the
    result is what it left in /run/treadle/out. Raises LocalError when it fails."""
    with scratch.directory("inside") as room:
        into, out = os.path.join(room, "in"), os.path.join(room, "out")
        os.mkdir(into)
        os.mkdir(out)
        for name, data in given.items():
            opening.write(os.path.join(into, name), data)
        shown = (Mount(source=into, target=f"{ROOM}/in"), Mount(source=out, target=f"{ROOM}/out", write=True))
        walls = replace(walls, network="off", hosts=(), sockets=(), relay=None, mounts=(*walls.mounts, *shown))
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **(env or {})}
        output, seconds = b"", at_most(INSIDE_SECONDS if given else LOOK_SECONDS)
        try:
            async with within(seconds):
                child = await start(walls, ["/bin/sh", "-c", script], cwd=cwd, env=own, stderr="stdout")
                async with child:
                    while data := await child.stdio.read():
                        output = (output + data)[-4096:]
                    code = await child.wait()
        except TimeoutError as error:
            raise TimedOut(f"git did not end within {round(seconds, 1):g} s") from error
        if code:
            raise LocalError(f"git says: {output.decode(errors='replace').strip()[-500:] or f'exit code {code}'}")
        return await asyncio.to_thread(_files, out)


def _files(directory: str) -> dict[str, bytes]:
    """What a program left here. Links are not followed, and anything but files is left out."""
    found = {}
    for name in os.listdir(directory):
        try:
            data = read_at_most(os.path.join(directory, name), LARGEST + 1, follow=False)
        except OSError:
            continue
        if len(data) > LARGEST:
            raise LocalError(f"it is larger than {LARGEST >> 20} MiB")
        found[name] = data
    return found
